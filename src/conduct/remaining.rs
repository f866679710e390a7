//! Which launches a run will still make, and how long they take: by what launches took so far, within the time limit.

use std::collections::BTreeMap;

use crate::experiments::Experiment;
use crate::plan::{self, Plan};
use crate::setup::Setup;

use super::rounds::Rounds;

/// A run as far as it is known: who takes part in a coming round, and for how long.
pub(super) struct Known<'a> {
    plan: &'a Plan,
    setup: &'a Setup,
    state: &'a Rounds,
    /// Seconds of the next launch of each experiment.
    expected: BTreeMap<&'static str, f64>,
}

impl<'a> Known<'a> {
    pub(super) fn of(plan: &'a Plan, setup: &'a Setup, state: &'a Rounds) -> Self {
        let expected = plan.running.iter().map(|experiment| (experiment.id, state.expected(experiment, setup)));
        Known { plan, setup, state, expected: expected.collect() }
    }

    fn seconds(&self, experiment: &Experiment) -> f64 {
        self.expected.get(experiment.id).copied().unwrap_or(0.0)
    }

    fn is_seldom(&self, experiment: &Experiment) -> bool {
        (experiment.every)(self.setup) > 1
    }

    /// Who is due in a round, given the launches that each had.
    fn due(&self, round: u32, launches: &BTreeMap<String, u32>) -> Vec<&'static Experiment> {
        let wanted = |experiment: &&Experiment| !self.state.given_up(experiment.id) && !self.state.rests(experiment.id);
        let wanted: Vec<&'static Experiment> = self.plan.running.iter().copied().filter(wanted).collect();
        // Once the figures were looked at, time goes to where it buys most.
        if let Some(worth) = &self.state.worth {
            return worth.best(wanted, self.plan.limit_seconds, |experiment| self.seconds(experiment));
        }
        // Where only those are left that take part seldom, they take part in every round.
        let seldom = wanted.iter().all(|experiment| self.is_seldom(experiment));
        let is_due = |experiment: &&'static Experiment| {
            let had = launches.get(experiment.id).copied().unwrap_or(0);
            seldom || plan::takes_part(experiment, round, self.setup) && (self.is_seldom(experiment) || had < round)
        };
        let due: Vec<&'static Experiment> = wanted.iter().copied().filter(is_due).collect();
        // A round in which nothing is due would end the run.
        if due.is_empty() { wanted } else { due }
    }

    /// Who takes part in a round within the time that is left, and whether these are all who are due. Where not all of them fit,
    /// those that take part in every round do, so that what is dear leaves time to what is not. None where not even they fit.
    pub(super) fn affordable(
        &self,
        round: u32,
        launches: &BTreeMap<String, u32>,
        left: f64,
    ) -> (Option<Vec<&'static Experiment>>, bool) {
        let fits = |order: &[&'static Experiment]| self.round_seconds(order) <= left;
        let mut order = self.due(round, launches);
        if fits(&order) {
            return (Some(order), true);
        }
        order.retain(|experiment| !self.is_seldom(experiment));
        let some = !order.is_empty() && fits(&order);
        (some.then_some(order), false)
    }

    /// Seconds of the launches of a round, with its canaries.
    fn round_seconds(&self, order: &[&'static Experiment]) -> f64 {
        plan::CANARY_SECONDS + order.iter().map(|experiment| self.seconds(experiment)).sum::<f64>()
    }

    /// Seconds until the run ends at the latest, before a launch of a round: what comes after it in this round, and the rounds to
    /// come. Experiments that reach their targets end it earlier. In the first round only the time limit is known.
    pub(super) fn seconds_left(
        &self,
        round: u32,
        now: &'static Experiment,
        after: &[&'static Experiment],
        elapsed: f64,
    ) -> f64 {
        let limit = (self.plan.limit_seconds - elapsed).max(0.0);
        if self.state.ended == 0 {
            return limit;
        }
        let pace = self.state.pace(elapsed);
        let mut had = self.state.launches.clone();
        count(&mut had, &[now]);
        count(&mut had, after);
        let mut left = (self.seconds(now) + self.round_seconds(after)) * pace;
        let rounds = self.plan.most_rounds.saturating_sub(self.state.ended + 1);
        for coming in 1..=rounds {
            let (Some(order), _) = self.affordable(round + coming, &had, limit - left) else { break };
            left += self.round_seconds(&order) * pace;
            count(&mut had, &order);
        }
        left.min(limit)
    }
}

/// Counts a launch of each.
fn count(launches: &mut BTreeMap<String, u32>, order: &[&'static Experiment]) {
    for experiment in order {
        *launches.entry(experiment.id.to_owned()).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conduct::launch::Ended;
    use crate::setup::Profile;

    /// How far an estimate may be off, and seconds that nobody waits for.
    const OFF: f64 = 1.5;
    const MOMENT: f64 = 0.3;

    /// A run by a scripted clock: each launch takes as many times its plan as the script says, and each round some time besides.
    /// Gives the seconds that were left at each launch from the second round on, as estimated and as they were.
    fn scripted(
        words: &[&str],
        profile: Profile,
        script: impl Fn(u32, &Experiment) -> f64,
        besides: f64,
    ) -> Vec<(f64, f64)> {
        let machine = crate::machine::detect(std::path::Path::new("/nonexistent"), std::path::Path::new("/"));
        let setup = Setup::of(machine, 0, vec![0], profile);
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let plan = plan::plan(&plan::select(&words).unwrap(), &setup, None).unwrap();
        assert!(!plan.running.is_empty());
        let (mut state, mut clock, mut seen) = (Rounds::default(), plan::START_SECONDS, Vec::new());
        for round in 1.. {
            let known = Known::of(&plan, &setup, &state);
            let (order, _) = known.affordable(round, &state.launches, plan.limit_seconds - clock);
            let Some(order) = order.filter(|_| state.ended < plan.most_rounds) else { break };
            for (place, experiment) in order.iter().enumerate() {
                let left = Known::of(&plan, &setup, &state).seconds_left(round, experiment, &order[place + 1..], clock);
                if round > 1 {
                    seen.push((clock, left));
                }
                let seconds = plan::launch_seconds(experiment, &setup) * script(round, experiment);
                state.turn(experiment.id);
                clock += seconds;
                state.note(experiment.id, &Ended::Well, seconds);
            }
            let began = clock;
            clock += plan::CANARY_SECONDS;
            state.close(began, clock);
            clock += besides;
        }
        seen.into_iter().map(|(at, left)| (left, clock - at)).collect()
    }

    fn assert_near(seen: &[(f64, f64)], what: &str) {
        assert!(seen.len() > 4, "{what}: {seen:?}");
        for (left, real) in seen {
            assert!(*left <= real * OFF + MOMENT && *left >= real / OFF - MOMENT, "{what}: {left} s for {real} s");
        }
    }

    #[test]
    fn the_time_that_is_left_is_near_the_time_it_takes() {
        for profile in [Profile::Quick, Profile::Default] {
            for words in [["cpu"].as_slice(), &["cpu", "os", "memory"], &["os.system_call"], &["memory.latency"]] {
                let named = |what: &str| format!("{profile:?} {words:?} {what}");
                assert_near(&scripted(words, profile, |_, _| 1.0, 0.0), &named("as planned"));
                assert_near(&scripted(words, profile, |_, _| 2.5, 0.0), &named("slow"));
                assert_near(&scripted(words, profile, |_, _| 0.4, 0.0), &named("fast"));
                // A first round that does more than the others, launches that vary, a log that takes its time.
                let first = |round, _: &Experiment| if round == 1 { 4.0 } else { 1.0 };
                assert_near(&scripted(words, profile, first, 0.0), &named("long first round"));
                let uneven = |round: u32, one: &Experiment| [0.7, 1.3, 1.0][(round as usize + one.id.len()) % 3];
                assert_near(&scripted(words, profile, uneven, 0.02), &named("uneven"));
            }
        }
    }

    #[test]
    fn no_more_than_the_limit_is_left() {
        for (left, _) in scripted(&["memory"], Profile::Quick, |_, _| 3.0, 0.5) {
            assert!(left <= Profile::Quick.limit_seconds(), "{left}");
        }
    }
}
