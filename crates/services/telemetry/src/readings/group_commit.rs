//! Decides when a committer commits. The decision is pure: time and arrivals are parameters.

/// The readings waiting for the next commit.
#[derive(Clone, Debug)]
pub(crate) struct GroupCommit {
    /// The longest time that the first reading waits for others.
    gather_ns: u64,
    /// A commit of this many readings does not wait.
    full: usize,
    waiting: usize,
    /// The arrival time of the first waiting reading.
    since_ns: u64,
    ending: bool,
}

/// The next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// No reading waits: wait for one.
    Idle,
    /// Wait for more readings, at most for this many nanoseconds.
    Within(u64),
    /// Commit the waiting readings.
    Commit,
}

impl GroupCommit {
    pub(crate) fn new(gather_ns: u64, full: usize) -> Self {
        GroupCommit { gather_ns, full, waiting: 0, since_ns: 0, ending: false }
    }

    /// Counts arrivals at `at_ns`. Waiting during an earlier commit counts too.
    pub(crate) fn arrive(&mut self, readings: usize, at_ns: u64) {
        if self.waiting == 0 {
            self.since_ns = at_ns;
        }
        self.waiting += readings;
    }

    /// Ends the wait: no more readings will arrive.
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

    /// Clears the waiting readings after their commit has begun.
    pub(crate) fn committed(&mut self) {
        self.waiting = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays arrivals, each at its time, and compares the steps.
    fn check(play: &[(u64, usize)], expected: &[Step]) {
        let mut group = GroupCommit::new(100, 10);
        let mut steps = Vec::new();
        for (at_ns, readings) in play {
            if *readings > 0 {
                group.arrive(*readings, *at_ns);
            }
            let step = group.step(*at_ns);
            steps.push(step);
            if step == Step::Commit {
                group.committed();
            }
        }
        assert_eq!(steps, expected);
    }

    #[test]
    fn the_first_reading_waits_no_longer_than_the_limit() {
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
    fn time_during_a_commit_counts_as_waiting() {
        let mut group = GroupCommit::new(100, 10);
        group.arrive(1, 1_000);
        group.arrive(1, 1_090);
        assert_eq!(group.step(1_500), Step::Commit);
        group.committed();
        group.arrive(1, 1_450);
        assert_eq!(group.step(1_500), Step::Within(50));
    }

    #[test]
    fn at_the_end_a_commit_does_not_wait() {
        let mut group = GroupCommit::new(100, 10);
        group.arrive(1, 0);
        group.end();
        assert_eq!(group.step(0), Step::Commit);
        group.committed();
        assert_eq!(group.step(1), Step::Idle);
    }

    #[test]
    fn without_a_wait_every_reading_is_committed_at_once() {
        let mut group = GroupCommit::new(0, 10);
        group.arrive(1, 7);
        assert_eq!(group.step(7), Step::Commit);
    }
}
