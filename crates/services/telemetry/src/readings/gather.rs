//! Decides when a committer commits. Pure: it is told the time and what arrived, and never waits.

/// The committer's readings so far.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    /// How long the first reading waits for others.
    gather_ns: u64,
    /// So many are not waited with.
    full: usize,
    waiting: usize,
    /// When the first of those that wait came.
    since_ns: u64,
    ending: bool,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Nothing waits: wait for a reading.
    Idle,
    /// Wait for more readings, at most so long.
    Within(u64),
    /// Commit what waits.
    Commit,
}

impl Gather {
    pub(crate) fn new(gather_ns: u64, full: usize) -> Self {
        Gather { gather_ns, full, waiting: 0, since_ns: 0, ending: false }
    }

    /// Readings came in at that time. Those that come while a commit is in flight have waited already when it is over,
    /// and are not kept waiting for longer.
    pub(crate) fn arrive(&mut self, readings: usize, at_ns: u64) {
        if self.waiting == 0 {
            self.since_ns = at_ns;
        }
        self.waiting += readings;
    }

    /// Nothing more will come: do not wait for it.
    pub(crate) fn end(&mut self) {
        self.ending = true;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting >= self.full
    }

    pub(crate) fn step(&self, now_ns: u64) -> Step {
        let waited_ns = now_ns.saturating_sub(self.since_ns);
        match self.waiting {
            0 => Step::Idle,
            _ if self.ending || self.is_full() || waited_ns >= self.gather_ns => Step::Commit,
            _ => Step::Within(self.gather_ns - waited_ns),
        }
    }

    /// What waited is on its way.
    pub(crate) fn committed(&mut self) {
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays arrivals and looks, each at its time, and gives what each look said.
    fn check(play: &[(u64, usize)], expected: &[Step]) {
        let mut gather = Gather::new(100, 10);
        let mut said = Vec::new();
        for (at_ns, readings) in play {
            if *readings > 0 {
                gather.arrive(*readings, *at_ns);
            }
            let step = gather.step(*at_ns);
            said.push(step);
            if step == Step::Commit {
                gather.committed();
            }
        }
        assert_eq!(said, expected);
    }

    #[test]
    fn the_first_waits_for_others_no_longer_than_allowed() {
        check(
            &[(0, 0), (50, 1), (90, 1), (149, 0), (150, 0), (151, 0)],
            &[Step::Idle, Step::Within(100), Step::Within(60), Step::Within(1), Step::Commit, Step::Idle],
        );
    }

    #[test]
    fn a_full_commit_does_not_wait() {
        check(&[(5, 9), (6, 1), (7, 25)], &[Step::Within(100), Step::Commit, Step::Commit]);
    }

    #[test]
    fn what_came_during_a_commit_has_waited_already() {
        let mut gather = Gather::new(100, 10);
        gather.arrive(1, 1_000);
        gather.arrive(1, 1_090);
        assert_eq!(gather.step(1_500), Step::Commit);
        gather.committed();
        gather.arrive(1, 1_450);
        assert_eq!(gather.step(1_500), Step::Within(50));
    }

    #[test]
    fn at_the_end_nothing_is_waited_for() {
        let mut gather = Gather::new(100, 10);
        gather.arrive(1, 0);
        gather.end();
        assert_eq!(gather.step(0), Step::Commit);
        gather.committed();
        assert_eq!(gather.step(1), Step::Idle);
    }

    #[test]
    fn without_gathering_every_reading_goes_at_once() {
        let mut gather = Gather::new(0, 10);
        gather.arrive(1, 7);
        assert_eq!(gather.step(7), Step::Commit);
    }
}
