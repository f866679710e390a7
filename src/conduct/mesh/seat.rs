//! Rank and size of this task: as typed, or as the engine that started it says. No library of an engine is needed for that.

use crate::results::mesh::MOST_MEMBERS;
use crate::results::problem::Problem;

/// The place of a task among all tasks of its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// From 0 on, below the size.
    pub rank: u32,
    /// Number of tasks, from 2 to [`MOST_MEMBERS`].
    pub size: u32,
}

/// Variables with a rank, each with those that can have the size.
const VARIABLES: [(&str, &[&str]); 4] = [
    ("SLURM_PROCID", &["SLURM_NTASKS"]),
    ("PMIX_RANK", &["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]),
    ("PMI_RANK", &["PMI_SIZE"]),
    ("OMPI_COMM_WORLD_RANK", &["OMPI_COMM_WORLD_SIZE"]),
];
/// The index of a pod of an indexed job. The number of pods is in no variable.
const INDEX: &str = "JOB_COMPLETION_INDEX";

const HINT: &str = "start one task on each node, such as with srun, or give --rank and --size";

fn number(name: &str, text: &str) -> Result<u32, Problem> {
    let wrong = || Problem::new(format!("{name} is '{text}', which is not a number of tasks")).hint(HINT);
    text.trim().parse().map_err(|_| wrong())
}

impl Seat {
    /// From what was typed and from variables.
    pub fn of(
        rank: Option<u32>,
        size: Option<u32>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, Problem> {
        match (rank, size) {
            (Some(rank), Some(size)) => Seat { rank, size }.checked("--rank and --size"),
            (Some(_), None) => Err(Problem::new("--rank needs --size, the number of all tasks").hint(HINT)),
            (None, size) => Seat::of_engine(size, variable),
        }
    }

    fn of_engine(typed: Option<u32>, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, Problem> {
        let mut found: Vec<(String, Seat)> = Vec::new();
        for (name, sizes) in VARIABLES {
            let Some(rank) = variable(name) else { continue };
            let Some((of, size)) = sizes.iter().find_map(|of| Some((of, variable(of)?))) else { continue };
            let seat = Seat { rank: number(name, &rank)?, size: number(of, &size)? };
            found.push((format!("{name} and {of}"), seat));
        }
        if let (Some(index), Some(size)) = (variable(INDEX), typed) {
            found.push((format!("{INDEX} and --size"), Seat { rank: number(INDEX, &index)?, size }));
        }
        let Some((source, first)) = found.first() else {
            let index = variable(INDEX).is_some();
            let what = if index {
                "the size is unknown: JOB_COMPLETION_INDEX has no number of pods"
            } else {
                "the rank of this task is unknown"
            };
            let hint = if index { "give --size with the completions of the job" } else { HINT };
            return Err(Problem::new(what).hint(hint));
        };
        let says = |source: &str, seat: &Seat| format!("{source} say rank {} of {}", seat.rank, seat.size);
        if let Some((other, seat)) = found.iter().find(|(_, seat)| seat != first) {
            let what = format!("{}, but {}", says(source, first), says(other, seat));
            return Err(Problem::new(what).hint("give --rank and --size"));
        }
        if let Some(size) = typed.filter(|&size| size != first.size) {
            let what = format!("{}, but --size is {size}", says(source, first));
            return Err(Problem::new(what).hint("leave --size out, or give --rank too"));
        }
        first.checked(source)
    }

    fn checked(self, source: &str) -> Result<Self, Problem> {
        let Seat { rank, size } = self;
        let wrong = |what: String| Err(Problem::new(format!("{what} ({source})")).hint(HINT));
        if size < 2 {
            return wrong(format!("a network has two nodes or more, and the size is {size}"));
        }
        if size > MOST_MEMBERS {
            return wrong(format!("a mesh has at most {MOST_MEMBERS} members, and the size is {size}"));
        }
        if rank >= size {
            return wrong(format!("rank {rank} is not below the size {size}"));
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(rank: Option<u32>, size: Option<u32>, variables: &[(&str, &str)]) -> Result<(u32, u32), String> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        Seat::of(rank, size, &variable).map(|seat| (seat.rank, seat.size)).map_err(|problem| {
            assert!(problem.hint.is_some(), "{problem}");
            problem.what
        })
    }

    #[test]
    fn engines_say_rank_and_size() {
        assert_eq!(seat(Some(1), Some(2), &[("SLURM_PROCID", "7")]), Ok((1, 2)));
        assert_eq!(seat(None, None, &[("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4")]), Ok((3, 4)));
        assert_eq!(seat(None, None, &[("PMIX_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")]), Ok((3, 4)));
        assert_eq!(seat(None, None, &[("PMIX_RANK", "3"), ("PMI_SIZE", "4")]), Ok((3, 4)));
        assert_eq!(seat(None, None, &[("PMI_RANK", "3"), ("PMI_SIZE", "4")]), Ok((3, 4)));
        let ompi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_RANK", "3")];
        assert_eq!(seat(None, None, &ompi), Ok((3, 4)));
        assert_eq!(seat(None, Some(9), &[("JOB_COMPLETION_INDEX", "0")]), Ok((0, 9)));
    }

    #[test]
    fn what_is_missing_wrong_or_contradicts_is_named() {
        let why = |rank, size, variables: &[(&str, &str)]| seat(rank, size, variables).unwrap_err();
        assert!(why(None, None, &[]).contains("rank of this task is unknown"));
        assert!(why(Some(1), None, &[]).contains("--size"));
        assert!(why(None, None, &[("JOB_COMPLETION_INDEX", "1")]).contains("size is unknown"));
        assert!(why(None, None, &[("SLURM_PROCID", "x"), ("SLURM_NTASKS", "4")]).contains("'x'"));
        assert!(why(Some(0), Some(1), &[]).contains("two nodes"));
        assert!(why(Some(4), Some(4), &[]).contains("not below"));
        assert!(why(Some(0), Some(4097), &[]).contains("4096"));
        let both = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("PMI_RANK", "2"), ("PMI_SIZE", "4")];
        assert!(why(None, None, &both).contains("SLURM_PROCID and SLURM_NTASKS say rank 0 of 4, but PMI_RANK"));
        assert!(why(None, Some(5), &both[..2]).contains("--size is 5"));
    }
}
