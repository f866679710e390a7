//! Which launches a run will still make, and how long they take: by what launches took so far, within the time limit.

use std::collections::BTreeMap;

use crate::experiments::Experiment;
use crate::plan::{self, Plan};
use crate::setup::Setup;

use super::rounds::Rounds;
use super::worth::Budget;

/// A run as far as it is known: who takes part in a coming round, and for how long.
pub(super) struct Known<'a> {
    plan: &'a Plan,
    setup: &'a Setup,
    state: &'a Rounds,
    /// Seconds of the next launch of each experiment, by which rounds are chosen.
    expected: BTreeMap<&'static str, f64>,
    /// How many times its plan a launch takes of which nothing is known but the first, which does more.
    drift: f64,
}

impl<'a> Known<'a> {
    pub(super) fn of(plan: &'a Plan, setup: &'a Setup, state: &'a Rounds) -> Self {
        let expected = plan.running.iter().map(|experiment| (experiment.id, state.expected(experiment, setup)));
        Known { plan, setup, state, expected: expected.collect(), drift: drift(plan, setup, state) }
    }

    /// Seconds of the next launch as it is likely to be.
    fn likely(&self, experiment: &Experiment) -> f64 {
        let seen = self.state.seconds.get(experiment.id).map_or(0, Vec::len);
        let known = seen > 1 || seen == 1 && self.is_seldom(experiment);
        self.seconds(experiment) * if known { 1.0 } else { self.drift }
    }

    fn likely_round(&self, order: &[&'static Experiment]) -> f64 {
        plan::PROBE_SECONDS + order.iter().map(|experiment| self.likely(experiment)).sum::<f64>()
    }

    fn seconds(&self, experiment: &Experiment) -> f64 {
        self.expected.get(experiment.id).copied().unwrap_or(0.0)
    }

    fn is_seldom(&self, experiment: &Experiment) -> bool {
        (experiment.every)(self.setup) > 1
    }

    /// Those that are launched on, given the launches that each had.
    fn wanted(&self, launches: &BTreeMap<String, u32>) -> Vec<&'static Experiment> {
        let most = self.plan.most_launches;
        let has_most = |experiment: &Experiment| launches.get(experiment.id).is_some_and(|had| *had >= most);
        let ends = |id: &str| self.state.given_up(id) || self.state.rests(id);
        let wanted = |experiment: &&'static Experiment| !ends(experiment.id) && !has_most(experiment);
        self.plan.running.iter().copied().filter(wanted).collect()
    }

    /// Whether no experiment is launched any more.
    pub(super) fn none_is_wanted(&self) -> bool {
        self.wanted(&self.state.launches).is_empty()
    }

    /// Who is due in a round, given the launches that each had.
    fn due(&self, round: u32, launches: &BTreeMap<String, u32>) -> Vec<&'static Experiment> {
        let wanted = self.wanted(launches);
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
    /// those that take part in every round do, so that expensive experiments leave time to the others. None if not even those fit.
    pub(super) fn affordable(
        &self,
        round: u32,
        launches: &BTreeMap<String, u32>,
        left: f64,
    ) -> (Option<Vec<&'static Experiment>>, bool) {
        // Once the figures were looked at, time goes to where it buys most.
        if let Some(worth) = &self.state.worth {
            let budget = Budget {
                launches,
                most: self.plan.most_launches,
                limit: self.plan.limit_seconds,
                left: left - plan::PROBE_SECONDS,
            };
            let order = worth.best(&self.wanted(launches), budget, |experiment| self.likely(experiment));
            return ((!order.is_empty()).then_some(order), true);
        }
        let fits = |order: &[&'static Experiment]| self.round_seconds(order) <= left;
        let mut order = self.due(round, launches);
        if fits(&order) {
            return (Some(order), true);
        }
        order.retain(|experiment| !self.is_seldom(experiment));
        let some = !order.is_empty() && fits(&order);
        (some.then_some(order), false)
    }

    /// Seconds of the launches of a round, with its interference probes.
    fn round_seconds(&self, order: &[&'static Experiment]) -> f64 {
        plan::PROBE_SECONDS + order.iter().map(|experiment| self.seconds(experiment)).sum::<f64>()
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
        let mut left = (self.likely(now) + self.likely_round(after)) * pace;
        let rounds = self.plan.most_rounds.saturating_sub(self.state.ended + 1);
        for coming in 1..=rounds {
            let (Some(order), _) = self.affordable(round + coming, &had, limit - left) else { break };
            left += self.likely_round(&order) * pace;
            count(&mut had, &order);
        }
        left.min(limit)
    }
}

/// What launches took relative to their plan: those after the first of their experiment, else a guess between the first and the plan.
fn drift(plan: &Plan, setup: &Setup, state: &Rounds) -> f64 {
    let (mut later, mut first) = ((0.0, 0.0), (0.0, 0.0));
    for experiment in &plan.running {
        let planned = plan::launch_seconds(experiment, setup);
        if let Some([one, others @ ..]) = state.seconds.get(experiment.id).map(Vec::as_slice) {
            first = (first.0 + one, first.1 + planned);
            later = (later.0 + others.iter().sum::<f64>(), later.1 + planned * others.len() as f64);
        }
    }
    let ratio = if later.1 > 0.0 { later.0 / later.1 } else { (first.0 / first.1).sqrt() };
    if ratio.is_finite() { ratio } else { 1.0 }
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
    use crate::conduct::worth::Worth;
    use crate::setup::Profile;

    /// How far an estimate may be off.
    const OFF: f64 = 1.5;
    /// Share of the time limit by which it may be off at the end: whether a last round fits is decided by a moment.
    const MOMENT: f64 = 0.02;

    /// A run by a scripted clock: each launch takes as many times its plan as the script says, and each round some time besides.
    /// Gives the seconds that were left at each launch from a round on, as estimated and as they were.
    fn scripted(
        words: &[&str],
        profile: Profile,
        script: impl Fn(u32, &Experiment) -> f64,
        besides: f64,
        from: u32,
    ) -> Vec<(f64, f64)> {
        let machine = crate::machine::detect(std::path::Path::new("/proc/nonexistent"), std::path::Path::new("/"));
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
                if round >= from {
                    seen.push((clock, left));
                }
                let seconds = plan::launch_seconds(experiment, &setup) * script(round, experiment);
                state.turn(experiment.id);
                clock += seconds;
                state.note(experiment.id, &Ended::Well, seconds);
            }
            let began = clock;
            clock += plan::PROBE_SECONDS;
            state.close(began, clock);
            clock += besides;
            if profile.is_quick() {
                // Short rounds of what is worth most follow the first one. Here all is worth the same.
                state.worth = Some(Worth::default());
            }
        }
        seen.into_iter().map(|(at, left)| (left, clock - at)).collect()
    }

    fn assert_near(seen: &[(f64, f64)], profile: Profile, what: &str) {
        let moment = MOMENT * profile.limit_seconds();
        assert!(seen.len() > 4, "{what}: {seen:?}");
        for (left, real) in seen {
            assert!(*left <= real * OFF + moment && *left >= real / OFF - moment, "{what}: {left} s for {real} s");
        }
    }

    #[test]
    fn the_time_that_is_left_is_near_the_time_it_takes() {
        for profile in [Profile::Quick, Profile::Default] {
            for words in [["cpu"].as_slice(), &["cpu", "os", "memory"], &["os.system_call"], &["memory.latency"]] {
                let named = |what: &str| format!("{profile:?} {words:?} {what}");
                let uneven = |round: u32, one: &Experiment| [0.7, 1.3, 1.0][(round as usize + one.id.len()) % 3];
                assert_near(&scripted(words, profile, |_, _| 1.0, 0.0, 2), profile, &named("as planned"));
                assert_near(&scripted(words, profile, |_, _| 1.9, 0.0, 2), profile, &named("slow"));
                assert_near(&scripted(words, profile, |_, _| 0.5, 0.0, 2), profile, &named("fast"));
                assert_near(&scripted(words, profile, uneven, 0.02, 2), profile, &named("uneven"));
                // The second round shows how much more the first one did.
                let first = |round: u32, _: &Experiment| if round == 1 { 4.0 } else { 1.0 };
                assert_near(&scripted(words, profile, first, 0.0, 3), profile, &named("long first round"));
                assert_near(&scripted(words, profile, |_, _| 4.0, 0.0, 3), profile, &named("very slow"));
            }
        }
    }

    #[test]
    fn no_more_than_the_limit_is_left() {
        for (left, _) in scripted(&["memory"], Profile::Quick, |_, _| 3.0, 0.5, 2) {
            assert!(left <= Profile::Quick.limit_seconds(), "{left}");
        }
    }
}
