//! Measures the speed of document encoding, on one core.
//!
//! Run with `cargo bench -p plimsoll-document`. Goals: 5 million documents/s or more for the 71-byte document
//! of `small`; 1 GB/s or more for the 30-field, 665-byte document of `order`. Documents of random sizes have
//! no goal: `varying` and `padded` show them for comparison. All use seed 42, and each iteration makes a
//! batch of 1000 documents, as an insert would.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use plimsoll_document::{Identity, Program, Settings, Template};
use serde_json::{Value, json};

const BATCH: u64 = 1000;

fn main() {
    divan::main();
}

/// Makes batches of one template's documents into a reused buffer.
fn encode(bencher: Bencher<'_, '_>, template: Value, stamp: Option<&str>) {
    let template: Template = serde_json::from_value(template).expect("a template is an object");
    let settings = Settings { seed: 42, stamp: stamp.map(str::to_owned), ..Settings::default() };
    let program = Program::compile(&template, &settings).expect("the template is sound");
    let (min, max) = program.len_bounds();
    let mut out = Vec::with_capacity(max * BATCH as usize);
    let mut number = 0;
    bencher
        .counter(ItemsCount::new(BATCH))
        .counter(BytesCount::new((min + max) as u64 / 2 * BATCH))
        .bench_local(|| {
            out.clear();
            for _ in 0..BATCH {
                let identity = Identity { id: [7; 12], stamp: number as i64 };
                program.encode(black_box(number), black_box(&identity), &mut out);
                number += 1;
            }
            black_box(out.as_slice());
        });
}

/// The document of an insert baseline: 71 bytes with its `_id`.
#[divan::bench]
fn small(bencher: Bencher<'_, '_>) {
    let template = json!({"key": "sk", "bytes": 512, "headers": {}, "ts": {"$sequence": {"start": 1_774_197_419_960_i64}}});
    encode(bencher, template, None);
}

/// An order of a good customer: 30 fields, padded to 665 bytes.
fn order_template() -> Value {
    json!({
        "businessId": {"$sequence": {}}, "salt": {"$long": {"min": 0, "max": 999_999}},
        "firstName": {"$text": {"bytes": 8}}, "lastName": {"$text": {"bytes": 12}},
        "status": {"$pick": ["paid", "open", "late"]}, "customer": {"$family": {"prefix": "vip-", "count": 10_000}},
        "age": {"$int": {"min": 18, "max": 99}}, "points": {"$int": {}}, "visits": {"$int": {"max": 500}},
        "active": {"$bool": {"probability": 0.9}}, "gold": {"$bool": {}},
        "created": {"$date": {"start": "-365d", "within": "365d"}}, "updated": {"$date": {"step": "1s"}},
        "due": {"$date": {"step": "1s", "within": "1h"}}, "total": {"$double": {"min": 1, "max": 5000}},
        "tax": {"$double": {"max": 500}}, "price": {"$decimal": {"min": 1, "max": 5000}},
        "currency": "EUR", "country": {"$pick": ["DE", "FR", "TR", "US"]}, "city": {"$text": {"bytes": 10}},
        "street": {"$text": {"bytes": 20}}, "zip": {"$int": {"min": 10_000, "max": 99_999}},
        "session": {"$uuid": {}}, "parent": {"$object_id": {}}, "version": 3, "deleted": false, "coupon": null,
        "channel": "web", "note": {"$pad": {"to": 665}},
    })
}

/// Thirty fields with `_id`, 665 bytes, always the same size.
#[divan::bench]
fn order(bencher: Bencher<'_, '_>) {
    encode(bencher, order_template(), None);
}

/// The same document with a text of random size: the encoder sets lengths afterwards, and the padding fills
/// the rest.
#[divan::bench]
fn padded(bencher: Bencher<'_, '_>) {
    let mut template = order_template();
    template["city"] = json!({"$text": {"min": 5, "max": 15}});
    encode(bencher, template, Some("_p"));
}

/// Nested and varying: an array of 1 to 9 lines, an optional field, a skewed key.
#[divan::bench]
fn varying(bencher: Bencher<'_, '_>) {
    let line = json!({"sku": {"$family": {"prefix": "sku-", "count": 5000, "distribution": {"zipf": {}}}}, "n": {"$int": {}}});
    let template = json!({
        "lines": {"$array": {"of": line, "length": {"min": 1, "max": 9}}}, "text": {"$text": {"min": 20, "max": 80}},
        "coupon": {"$optional": {"probability": 0.3, "value": {"$text": {"bytes": 8}}}},
    });
    encode(bencher, template, Some("_p"));
}
