//! Resampling: sets of the same size, drawn with replacement (Efron, *Annals of Statistics* 7, 1979).

/// Draws `times` sets from values, with replacement. The same seed gives the same sets. Without values the sets are empty.
pub fn resamplings<T: Copy>(values: &[T], times: u32, seed: u64) -> impl Iterator<Item = Vec<T>> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..times).map(move |_| values.iter().map(|_| values[random.usize(..values.len())]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_the_size_and_the_values_of_what_they_are_drawn_from() {
        let sets: Vec<Vec<u32>> = resamplings(&[1, 2, 3, 4, 5], 200, 7).collect();
        assert_eq!(sets.len(), 200);
        assert!(sets.iter().all(|set| set.len() == 5 && set.iter().all(|value| (1..=5).contains(value))));
        assert!(sets.iter().any(|set| set.iter().filter(|value| **value == 3).count() > 1), "values come again");
        assert_eq!(sets, resamplings(&[1, 2, 3, 4, 5], 200, 7).collect::<Vec<_>>());
        assert!(resamplings::<u32>(&[], 2, 7).all(|set| set.is_empty()));
    }
}
