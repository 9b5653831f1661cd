//! Renders Decimal128 as text by the rules of the BSON specification (`decimal128.md`, "To-string representation").

/// The largest coefficient: 34 digits. A larger one counts as zero.
const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;
const BIAS: i32 = 6176;

/// Appends the text of a value, given as sixteen bytes.
pub(crate) fn append(value: &[u8], out: &mut Vec<u8>) {
    let bits = value.first_chunk().copied().map_or(0, u128::from_le_bytes);
    let high = bits >> 122 & 0x1f;
    if high == 0x1f {
        return out.extend_from_slice(b"NaN");
    }
    if bits >> 127 == 1 {
        out.push(b'-');
    }
    if high == 0x1e {
        return out.extend_from_slice(b"Infinity");
    }
    let (exponent, coefficient) = if high >> 3 == 3 {
        // A coefficient of more than 34 digits, which counts as zero.
        (exponent(bits >> 111), 0)
    } else {
        (exponent(bits >> 113), bits & ((1 << 113) - 1))
    };
    let coefficient = if coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
    let mut digits = itoa::Buffer::new();
    finite(digits.format(coefficient).as_bytes(), exponent, out);
}

fn exponent(bits: u128) -> i32 {
    i32::try_from(bits & 0x3fff).unwrap_or_default() - BIAS
}

fn finite(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    let adjusted = exponent + i32::try_from(digits.len()).unwrap_or_default() - 1;
    if exponent > 0 || adjusted < -6 {
        return scientific(digits, adjusted, out);
    }
    let places = usize::try_from(-exponent).unwrap_or_default();
    match digits.split_at_checked(digits.len().saturating_sub(places)) {
        _ if places == 0 => out.extend_from_slice(digits),
        Some((whole, part)) if !whole.is_empty() => {
            out.extend_from_slice(whole);
            out.push(b'.');
            out.extend_from_slice(part);
        }
        _ => {
            out.extend_from_slice(b"0.");
            out.resize(out.len() + places - digits.len(), b'0');
            out.extend_from_slice(digits);
        }
    }
}

fn scientific(digits: &[u8], adjusted: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&digits[..1]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.push(b'E');
    if adjusted >= 0 {
        out.push(b'+');
    }
    out.extend_from_slice(itoa::Buffer::new().format(adjusted).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::Decimal128;
    use proptest::prelude::*;

    fn text(value: Decimal128) -> String {
        let mut out = Vec::new();
        append(&value.bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_form_of_the_specification_is_rendered_exactly() {
        for typed in [
            "0",
            "-0",
            "1",
            "12",
            "-12.30",
            "0.001",
            "0.000001",
            "1E-7",
            "1.23E+5",
            "1E+3",
            "NaN",
            "Infinity",
            "-Infinity",
            "9999999999999999999999999999999999",
            "1.000000000000000000000000000000000E+6144",
            "0.00",
            "0E+3",
        ] {
            assert_eq!(text(typed.parse().unwrap()), typed);
        }
    }

    proptest! {
        #[test]
        fn any_decimal_matches_the_bson_crate(coefficient in 0..=COEFFICIENT_MAX, exponent in -6176_i32..=6111, minus: bool) {
            let sign = if minus { "-" } else { "" };
            let value: Decimal128 = format!("{sign}{coefficient}E{exponent}").parse().unwrap();
            prop_assert_eq!(text(value), value.to_string());
        }

        #[test]
        fn any_sixteen_bytes_are_rendered_without_a_panic(bytes: [u8; 16]) {
            text(Decimal128::from_bytes(bytes));
        }
    }
}
