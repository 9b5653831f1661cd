//! Formats counts with a comma between thousands.

/// A count with every digit: `1,000,000`.
pub fn exact(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_three_digits_are_a_group() {
        for (count, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (3_949_000, "3,949,000")] {
            assert_eq!(exact(count), text);
        }
    }
}
