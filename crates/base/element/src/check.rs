//! Checks a BSON document at every level and locates damage.

use crate::kind;
use crate::walk::{Damage, Element, Elements, int32};

/// The largest nesting of documents: MongoDB's limit.
pub const DEPTH_MAX: usize = 100;

/// Bytes that are not a BSON document: the position of the fault, and the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {what}")]
pub struct Damaged {
    /// The position in the document, in bytes.
    pub at: usize,
    /// The fault.
    pub what: Damage,
}

/// Checks that the bytes are one document, at every level. Documents and arrays inside it may be nested
/// `depth_max` levels deep.
///
/// # Errors
/// The first damage.
pub fn check(document: &[u8], depth_max: usize) -> Result<(), Damaged> {
    check_each(document, depth_max, ignore)
}

/// Checks as [`check`] does, and calls `each` for the elements of the outermost document.
///
/// # Errors
/// The first damage.
pub fn check_each<'a>(
    document: &'a [u8],
    depth_max: usize,
    mut each: impl FnMut(&Element<'a>),
) -> Result<(), Damaged> {
    level(document, 0, depth_max, &mut each)
}

fn ignore(_: &Element<'_>) {}

/// Checks a document that begins at `base`. Nested documents are checked with [`ignore`], so the compiler makes only two
/// instances.
fn level<'a>(
    document: &'a [u8],
    base: usize,
    levels: usize,
    each: &mut impl FnMut(&Element<'a>),
) -> Result<(), Damaged> {
    let damaged = |at: usize| move |what: Damage| Damaged { at: base + at, what };
    let mut elements = Elements::of(document).map_err(damaged(0))?;
    loop {
        let at = document.len() - 1 - elements.left();
        let Some(element) = elements.next() else { return Ok(()) };
        let element = element.map_err(damaged(at))?;
        if let Some(nested) = nested(&element).map_err(damaged(at))? {
            // The nested document ends with the element.
            let start = base + element.range_in(document).end - nested.len();
            let levels = levels.checked_sub(1).ok_or(Damaged { at: start, what: Damage::Depth })?;
            level(nested, start, levels, &mut ignore)?;
        }
        each(&element);
    }
}

/// Checks that texts are closed by NUL. Returns the document or array inside.
fn nested<'a>(element: &Element<'a>) -> Result<Option<&'a [u8]>, Damage> {
    let value = element.value;
    let closed = |end: usize| match value.get(..end).and_then(<[u8]>::last) {
        Some(0) => Ok(()),
        Some(_) => Err(Damage::Terminator),
        None => Err(Damage::Length),
    };
    match element.kind {
        kind::DOCUMENT | kind::ARRAY => Ok(Some(value)),
        // string, JavaScript, symbol
        0x02 | 0x0d | 0x0e => closed(value.len()).map(|()| None),
        // DBPointer: a string and an ObjectId
        0x0c => closed(value.len() - 12).map(|()| None),
        // JavaScript with scope: its length, a string, and a document
        kind::SCOPED_CODE => {
            let len = value.get(4..).and_then(int32).and_then(|len| usize::try_from(len).ok());
            let code_end = 8 + len.filter(|&len| len > 0).ok_or(Damage::Length)?;
            closed(code_end)?;
            Ok(value.get(code_end..))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk::tests::every_type;
    use crate::walk::valid;
    use bson::doc;
    use proptest::prelude::*;

    #[test]
    fn every_type_passes_and_its_outer_elements_are_shown() {
        let bytes = every_type().to_vec().unwrap();
        let mut keys = Vec::new();
        assert_eq!(check_each(&bytes, DEPTH_MAX, |element| keys.push(element.key)), Ok(()));
        assert_eq!(keys, every_type().keys().map(|key| key.as_bytes()).collect::<Vec<_>>());
        assert_eq!(check(&[5, 0, 0, 0, 0], 0), Ok(()));
    }

    #[test]
    fn a_truncated_document_is_refused_even_with_a_corrected_length() {
        let bytes = every_type().to_vec().unwrap();
        for len in 0..bytes.len() {
            assert!(check(&bytes[..len], DEPTH_MAX).is_err(), "cut at {len}");
            let mut mended = bytes[..len].to_vec();
            if len >= 4 {
                mended[..4].copy_from_slice(&i32::try_from(len).unwrap().to_le_bytes());
                // A document cut after a NUL may still be valid, so the test only rejects panics.
                let _ = check(&mended, DEPTH_MAX);
            }
        }
    }

    #[test]
    fn a_changed_byte_never_panics_and_accepted_documents_can_be_walked() {
        let bytes = every_type().to_vec().unwrap();
        let bits = (0..8).map(|bit| 1 << bit);
        for at in 0..bytes.len() {
            for value in
                [0, 1, 5, 0x0F, 0x7F, 0x80, 0xFF].into_iter().chain(bits.clone().map(|bit| bytes[at] ^ bit))
            {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                let passed = check(&bytes, DEPTH_MAX).is_ok();
                assert!(!passed || Elements::of(&bytes).unwrap().all(|element| element.is_ok()));
            }
        }
    }

    #[test]
    fn damage_is_located() {
        let mut bytes = doc! {"a": 1, "b": {"c": "text"}}.to_vec().unwrap();
        let at = bytes.iter().rposition(|byte| *byte == b't').unwrap();
        bytes[at + 1] = b'!';
        assert_eq!(check(&bytes, DEPTH_MAX), Err(Damaged { at: 18, what: Damage::Terminator }));
    }

    #[test]
    fn the_scope_of_code_is_checked() {
        let mut bytes =
            doc! {"x": bson::JavaScriptCodeWithScope { code: "f".into(), scope: doc! {"y": "z"} }}
                .to_vec()
                .unwrap();
        let at = bytes.iter().rposition(|byte| *byte == b'z').unwrap();
        bytes[at + 1] = b'!';
        assert!(matches!(check(&bytes, DEPTH_MAX), Err(Damaged { what: Damage::Terminator, .. })));
    }

    #[test]
    fn nesting_is_limited() {
        let mut document = doc! {};
        for depth in 0..DEPTH_MAX + 2 {
            let bytes = document.to_vec().unwrap();
            assert_eq!(check(&bytes, depth), Ok(()));
            let shallow = depth.checked_sub(1).map(|depth| check(&bytes, depth));
            assert!(
                shallow.is_none_or(|shallow| matches!(shallow, Err(Damaged { what: Damage::Depth, .. })))
            );
            document = doc! {"a": document};
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic_and_accepted_ones_are_valid(mut body in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut bytes = i32::try_from(body.len() + 5).unwrap().to_le_bytes().to_vec();
            bytes.append(&mut body);
            bytes.push(0);
            let mut elements = 0;
            if check_each(&bytes, DEPTH_MAX, |_| elements += 1).is_ok() {
                prop_assert_eq!(valid(&bytes).count(), elements);
            }
        }
    }
}
