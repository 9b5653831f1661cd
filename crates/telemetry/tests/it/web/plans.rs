//! How the server carries out the queries of the feeds.

use bson::Bson;
use plimsoll_telemetry::feeds::Design;

use super::feeds::{activity, ids, open};

/// All stages of all plans in an answer of `explain`.
fn stages(explained: &Bson, found: &mut Vec<String>) {
    match explained {
        Bson::Document(document) => document.iter().for_each(|(name, value)| match value {
            Bson::String(stage) if name == "stage" => found.push(stage.clone()),
            other => stages(other, found),
        }),
        Bson::Array(all) => all.iter().for_each(|one| stages(one, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_query_of_every_design_uses_an_index() {
    for design in Design::ALL {
        let (_, feeds) = open(design, "plans").await;
        for n in 0..30 {
            feeds.post(activity(&format!("{n:02}"), &format!("u{}", n % 5), n)).await.unwrap();
            feeds.follow(&format!("u{}", n % 5), &[format!("u{}", (n + 1) % 5), "all".into()]).await.unwrap();
            // The hybrid makes its caches when they are read.
            assert!(!ids(&feeds, &format!("u{}", n % 5)).await.is_empty());
        }
        let plans = feeds.explain().await.unwrap();
        assert!(plans.len() >= 8);
        for plan in plans {
            let mut found = Vec::new();
            stages(&Bson::Document(plan.explained.clone()), &mut found);
            let indexed = |stage: &String| {
                ["IXSCAN", "IDHACK"].iter().any(|it| stage.contains(it)) || stage.starts_with("EXPRESS")
            };
            let what = format!("{design:?}, {}: {}", plan.name, plan.explained);
            assert!(found.iter().any(indexed), "{what}");
            assert!(!found.iter().any(|stage| stage == "COLLSCAN"), "{what}");
        }
    }
}
