//! Orders the runs of a series in rounds, so that changes of the machine affect every variant.

/// One run of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Its number, from 1, in the order of the runs.
    pub number: u32,
    /// The index of its variant: a test, a cell or a side.
    pub variant: usize,
    /// Its repetition, from 1.
    pub repetition: u32,
}

/// The order of the variants within a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Every round in the same order.
    Same,
    /// Every second round is reversed, so that no variant always follows the same other one.
    Alternating,
}

/// Every run of a series: each variant once, then each variant with another repetition, and so on.
pub fn turns(repetitions: &[u32], order: Order) -> Vec<Turn> {
    let round = |repetition: u32| {
        let mut round: Vec<_> =
            (0..repetitions.len()).filter(|variant| repetition <= repetitions[*variant]).collect();
        if order == Order::Alternating && repetition.is_multiple_of(2) {
            round.reverse();
        }
        round.into_iter().map(move |variant| (variant, repetition))
    };
    let rounds = (1..=repetitions.iter().copied().max().unwrap_or(0)).flat_map(round);
    (1..).zip(rounds).map(|(number, (variant, repetition))| Turn { number, variant, repetition }).collect()
}

impl Turn {
    /// A directory named after the run's variant, with its repetition if the variant has several.
    pub fn directory(&self, name: &str, repetitions: u32) -> String {
        let round = if repetitions > 1 { format!("-r{}", self.repetition) } else { String::new() };
        format!("{:03}-{name}{round}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_interleaved_and_the_order_alternates() {
        let names = ["a", "b", "c"];
        let directories = |repetitions: &[u32], order| -> Vec<String> {
            let name = |turn: Turn| turn.directory(names[turn.variant], repetitions[turn.variant]);
            turns(repetitions, order).into_iter().map(name).collect()
        };
        let expected = ["001-a-r1", "002-b", "003-c-r1", "004-c-r2", "005-a-r2", "006-a-r3"];
        assert_eq!(directories(&[3, 1, 2], Order::Alternating), expected);
        let expected = ["001-a-r1", "002-b-r1", "003-a-r2", "004-b-r2"];
        assert_eq!(directories(&[2, 2], Order::Same), expected);
        assert!(turns(&[], Order::Same).is_empty());
    }
}
