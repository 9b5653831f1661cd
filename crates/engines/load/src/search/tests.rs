//! Tests the search against systems with scripted verdicts.

use super::*;
use crate::mix::scramble;

/// Searches a system whose verdict on a rate is `holds`; returns the result and the attempts.
fn search(start: f64, holds: impl FnMut(f64) -> bool) -> (Found, Vec<Attempt>) {
    search_with(Settings::standard(start, 1000), holds)
}

fn search_with(settings: Settings, mut holds: impl FnMut(f64) -> bool) -> (Found, Vec<Attempt>) {
    let mut search = Search::new(settings);
    let mut tries = Vec::new();
    while let Some(next) = search.next() {
        tries.push(next);
        search.record(holds(next.rate));
    }
    (search.found(), tries)
}

#[test]
fn a_sharp_line_is_found_within_the_resolution_from_any_start() {
    for line in [60.0, 170.0, 999.0, 54_321.0] {
        for start in [line / 30.0, line / 2.0, line * 1.1, line * 5.0] {
            let settings = Settings { budget_s: f64::INFINITY, ..Settings::standard(start, 1000) };
            let (found, tries) = search_with(settings, |rate| rate <= line);
            let (low, high) = (found.low.unwrap(), found.high.unwrap());
            assert!(low <= line && line < high && high / low < 1.0506, "{line} from {start}: {found:?}");
            assert_eq!(found.notes, [] as [String; 0]);
            let confirming = tries.iter().filter(|it| it.stage == Stage::Confirm).count();
            assert_eq!(confirming, 6);
        }
    }
}

#[test]
fn the_default_search_fits_in_three_minutes() {
    // A closed warm-up gives a start at a third of the ceiling; the line lies slightly below the ceiling.
    let (_, tries) = search(100.0, |rate| rate <= 260.0);
    let total_s: f64 = tries.iter().map(|it| it.window_s + 1.5).sum();
    assert!(total_s < 165.0, "{total_s}");
}

#[test]
fn an_unsteady_system_ends_in_time_with_an_uncontradicted_interval() {
    let mut tries = 0;
    let (found, all) = search(100.0, |rate| {
        tries += 1;
        rate < 150.0 || (rate < 600.0 && tries % 2 == 0)
    });
    let total_s: f64 = all.iter().map(|it| it.window_s).sum();
    assert!(total_s < 130.0 + 60.0 + 30.0, "{total_s}");
    assert!(found.low.is_some_and(|low| low < 600.0), "{found:?}");
    assert!(found.high.is_none_or(|high| high >= 150.0), "{found:?}");
}

#[test]
fn windows_have_support_for_the_percentile() {
    for start in [0.1, 5.0, 50.0, 5000.0] {
        for line in [20.0, 45.0, 200.0] {
            let (_, tries) = search(start, |rate| rate <= line);
            assert!(tries.iter().all(|it| it.window_s * it.rate >= 1000.0), "{tries:?}");
        }
    }
}

#[test]
fn a_line_too_low_to_judge_is_not_a_failure_of_every_rate() {
    let (found, tries) = search(5.0, |rate| rate <= 20.0);
    assert_eq!((found.low, tries.len()), (None, 1));
    assert!(found.notes[0].contains("down to 40.0 operations/s: below that, 30 s hold fewer"), "{found:?}");
    let few = Settings::standard(5.0, 100);
    let (found, _) = search_with(few, |rate| rate <= 20.0);
    assert!(found.low.is_some_and(|low| low <= 20.0), "{found:?}");
}

#[test]
fn a_search_without_a_holding_rate_reports_it() {
    let (found, tries) = search(100.0, |_| false);
    assert_eq!(found.low, None);
    assert!(found.notes[0].starts_with("no rate held, down to"), "{found:?}");
    assert!(tries.len() <= 9);
}

#[test]
fn a_search_without_a_failing_rate_reports_it() {
    let (found, _) = search(100.0, |_| true);
    assert_eq!(found.high, None);
    assert!(found.low.is_some() && found.notes[0].starts_with("no rate failed"));
}

#[test]
fn noise_widens_the_interval_and_never_hides_the_line() {
    // Between 900 and 1100 the verdict is random.
    for seed in 0..200 {
        let mut toss = 0;
        let (found, _) = search(100.0, |rate| {
            toss += 1;
            rate < 900.0 || (rate < 1100.0 && scramble(seed, toss).is_multiple_of(2))
        });
        // An end may stay open at the time limit; the result is never contradicted.
        assert!(found.low.is_none_or(|low| low < 1100.0), "seed {seed}: {found:?}");
        assert!(found.high.is_none_or(|high| high >= 900.0), "seed {seed}: {found:?}");
        assert!(found.low.is_some() && found.low.zip(found.high).is_none_or(|(low, high)| low < high));
    }
}

/// A system that sustains 43 operations a second, and 38 from its eleventh window on.
fn tiring() -> impl FnMut(f64) -> bool {
    let mut tries = 0;
    move |rate| {
        tries += 1;
        rate <= if tries <= 10 { 43.0 } else { 38.0 }
    }
}

/// The number of confirmations of the low end.
fn confirmations_of_the_low_end(found: &Found, tries: &[Attempt]) -> usize {
    let low = found.low.unwrap();
    tries.iter().filter(|it| it.stage == Stage::Confirm && it.rate == low).count()
}

#[test]
fn after_a_failed_confirmation_a_lower_rate_is_confirmed_and_reported() {
    // 40.5 held during the climb, and 40.6 failed its confirmation when the budget was spent.
    let (found, tries) = search_with(Settings::standard(8.0, 200), tiring());
    let (low, high) = (found.low.unwrap(), found.high.unwrap());
    assert!((36.8..37.0).contains(&low), "{found:?}");
    // 42.6 held once, which would contradict an upper end at 40.6.
    assert!((43.6..43.8).contains(&high), "{found:?}");
    assert_eq!((confirmations_of_the_low_end(&found, &tries), found.notes.len()), (3, 0), "{tries:?}");
}

#[test]
fn a_rate_that_held_once_is_not_reported_just_below_a_later_failure() {
    let settings = Settings { overtime_s: 0.0, ..Settings::standard(8.0, 200) };
    let (found, _) = search_with(settings, tiring());
    assert_eq!(found.low, Some(27.0), "the end has moved to 36.9, below 40.5");
    assert!(found.notes[0].contains("not steady enough"), "{found:?}");
}

#[test]
fn a_steady_system_is_confirmed_although_its_windows_are_long() {
    let settings = Settings::standard(36.4, 515);
    let (found, tries) = search_with(settings, |rate| rate <= 55.0);
    let total_s: f64 = tries.iter().map(|it| it.window_s).sum();
    assert!(total_s > settings.budget_s, "{total_s}");
    assert_eq!(found.notes, [] as [String; 0], "{tries:?}");
}

#[test]
fn a_lack_of_time_does_not_count_against_the_system() {
    let settings = Settings { overtime_s: 0.0, ..Settings::standard(36.4, 515) };
    let (found, _) = search_with(settings, |rate| rate <= 55.0);
    assert!(found.notes[0].contains("the system may still be steady"), "{found:?}");
}

#[test]
fn in_overtime_the_low_end_is_confirmed_first() {
    // The climb and the bisection use all of it.
    let settings = Settings { budget_s: 81.0, overtime_s: 36.0, ..Settings::standard(36.4, 515) };
    let (found, tries) = search_with(settings, |rate| rate <= 55.0);
    assert_eq!(confirmations_of_the_low_end(&found, &tries), 3, "{tries:?}");
    assert!(tries.iter().all(|it| it.stage != Stage::Confirm || it.rate <= 55.0), "{tries:?}");
}
