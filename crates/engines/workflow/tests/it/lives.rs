//! Applies random inputs to random definitions.

use plimsoll_measure::duration::Span;
use plimsoll_measure::random::Random;
use plimsoll_workflow::definition::{
    Branch, Case, Child, ContinueWith, Definition, Fail, Fork, Join, OnFailure, OnTimeout, Repeat, Retries,
    Service, Set, Step, Task, Timer, Undo, Wait,
};
use plimsoll_workflow::instance::{
    self, Act, Body, Ended, History, How, Signal, StartRequest, State, Status,
};
use plimsoll_workflow::program::Program;
use plimsoll_workflow::step::{Again, Answer, CallError, Input, Outcome, start, step};
use serde_json::{Value, json};

const DEFINITIONS: u64 = 400;
/// Lives of each definition.
const LIVES: u64 = 5;
const INPUTS: usize = 60;

fn below(random: &mut Random, bound: u64) -> u64 {
    random.bits() % bound
}

fn chance(random: &mut Random) -> bool {
    below(random, 2) == 0
}

/// Random steps.
fn steps(random: &mut Random, depth: u64) -> Vec<Step> {
    (0..1 + below(random, 4)).map(|_| one(random, depth)).collect()
}

fn service(random: &mut Random) -> Service {
    Service {
        function: "f".into(),
        result: chance(random).then(|| "r".into()),
        retries: Retries { attempts: 1 + below(random, 3) as u32, ..Retries::default() },
        on_failure: [OnFailure::Fail, OnFailure::Park, OnFailure::Continue][below(random, 3) as usize],
        ..Service::default()
    }
}

fn one(random: &mut Random, depth: u64) -> Step {
    let kinds = if depth == 0 { 8 } else { 11 };
    let on_timeout = if chance(random) { OnTimeout::Fail } else { OnTimeout::Continue };
    let timeout = chance(random).then(|| Span::from_secs(5));
    match below(random, kinds) {
        0 | 1 => {
            let undo = chance(random).then(|| Box::new(Undo::Service(service(random))));
            Step::Service(Service { compensate: undo, ..service(random) })
        }
        2 => Step::Wait(Wait {
            signal: "s".into(),
            result: Some("b".into()),
            timeout,
            on_timeout,
            ..Wait::default()
        }),
        3 => {
            let validate = chance(random).then(|| ". == 1".into());
            Step::Task(Task { validate, timeout, on_timeout, ..Task::default() })
        }
        4 => Step::Timer(Timer { after: Some(Span::from_secs(1)), ..Timer::default() }),
        5 => {
            let on_failure =
                [OnFailure::Fail, OnFailure::Park, OnFailure::Continue][below(random, 3) as usize];
            Step::Workflow(Child { definition: "c".into(), on_failure, ..Child::default() })
        }
        6 => Step::ContinueWith(ContinueWith { definition: "c".into(), ..ContinueWith::default() }),
        7 if below(random, 4) == 0 => Step::Fail(Fail { error: "no".into(), ..Fail::default() }),
        7 => {
            let value = if below(random, 8) == 0 { ".r.r.r.r" } else { ".n += 1" };
            Step::Set(Set { value: value.into(), ..Set::default() })
        }
        8 => {
            let branches = (0..1 + below(random, 3)).map(|_| steps(random, depth - 1)).collect();
            let join = if chance(random) { Join::All } else { Join::Any };
            Step::Fork(Fork { branches, join, ..Fork::default() })
        }
        9 => {
            let max = Some(below(random, 4) as u32);
            Step::Repeat(Repeat { max, steps: steps(random, depth - 1), ..Repeat::default() })
        }
        _ => {
            let case = Case { condition: ".r == 1".into(), steps: steps(random, depth - 1) };
            Step::Branch(Branch {
                cases: vec![case],
                otherwise: steps(random, depth - 1),
                ..Branch::default()
            })
        }
    }
}

/// A random input, mostly about a token of the state.
fn input(random: &mut Random, state: &State, number: usize, now_ms: u64) -> Input {
    let visit = match state.tokens.len() as u64 {
        0 => 1,
        tokens if below(random, 8) > 0 => state.tokens[below(random, tokens) as usize].visit,
        _ => below(random, state.visits + 2),
    };
    let number = if below(random, 10) == 0 { number / 2 } else { number };
    let signal = |body| Input::Signal(Signal::new("i", format!("s{number}"), body, now_ms));
    match below(random, 12) {
        0..=3 => {
            let attempt = state.visiting(visit).map_or(1, |token| match token.wait {
                instance::Wait::Call { attempt, .. } => attempt,
                _ => 1,
            });
            let again = if chance(random) { Again::Maybe } else { Again::Never };
            let result = match below(random, 3) {
                0 => Err(CallError { message: "broken".into(), again }),
                other => Ok(json!(other)),
            };
            Input::Called(Answer { visit, attempt, result })
        }
        4 | 5 => signal(Body::Named { name: "s".into(), body: json!(1) }),
        6 => Input::Due,
        7 => {
            let act = match below(random, 4) {
                0 => Act::Assign { to: "a".into() },
                1 => Act::Release,
                2 => Act::Reassign { to: "b".into() },
                _ => Act::Complete { payload: json!(below(random, 2)) },
            };
            signal(Body::Act { visit, by: "a".into(), roles: Vec::new(), act })
        }
        8 => {
            let status = if chance(random) { Status::Done } else { Status::Failed };
            signal(Body::Ended(Ended { visit, status, data: Value::Null, error: None }))
        }
        9 => Input::Drained { done: (0..=below(random, state.effects + 1)).collect() },
        10 => signal(Body::Retry),
        _ if below(random, 6) == 0 => signal(Body::Cancel { reason: "enough".into() }),
        _ => Input::Due,
    }
}

fn check(state: &State, seed: u64) {
    let broken = plimsoll_workflow::audit::violations(state);
    assert_eq!(broken, Vec::<String>::new(), "seed {seed}: {state:#?}");
    let explained = plimsoll_workflow::explain::waits(state);
    assert!(state.status.is_ended() || !explained.is_empty(), "seed {seed}: {state:#?}");
}

#[test]
fn random_inputs_never_lose_a_token_and_repeated_inputs_change_nothing() {
    let mut ends = [0; 7];
    for definition_number in 0..DEFINITIONS {
        let mut random = Random::new(definition_number);
        let definition = Definition { steps: steps(&mut random, 3), ..Definition::new("a") };
        let program =
            Program::compile(&definition).unwrap_or_else(|problems| panic!("{definition:?}: {problems:?}"));
        for life in 0..LIVES {
            let seed = definition_number * LIVES + life;
            ends[lead(&program, seed) as usize] += 1;
        }
    }
    assert!(
        ends.iter().enumerate().all(|(status, count)| *count > 0 || status == 3),
        "each end is met: {ends:?}"
    );
}

/// A state as an earlier version of the engine has it.
fn without_history(state: State) -> State {
    State { history: History::default(), ..state }
}

/// Checks that the open visits are those of the remaining tokens, each once.
fn check_history(state: &State, seed: u64) {
    let open = state.history.visits.iter().filter(|visit| visit.how == How::Open).map(|visit| visit.number);
    let mut open: Vec<_> = open.collect();
    open.sort_unstable();
    let stays = state.tokens.iter().filter(|token| token.wait != instance::Wait::Ready);
    let mut stays: Vec<_> = stays.map(|token| token.visit).collect();
    stays.sort_unstable();
    assert!(state.history.forgotten > 0 || open == stays, "seed {seed}: {state:#?}");
}

/// Applies random inputs to an instance; returns its last status.
fn lead(program: &Program, seed: u64) -> Status {
    let request = StartRequest {
        id: "i".into(),
        definition: "a".into(),
        key: None,
        parent: None,
        depth: 0,
        input: Value::Null,
    };
    let mut random = Random::new(seed);
    let mut now_ms = 1_000_000;
    let mut state = start(program, request, now_ms).unwrap();
    check(&state, seed);
    for number in 0..INPUTS {
        now_ms = (now_ms + below(&mut random, 3000)).saturating_sub(below(&mut random, 200));
        let input = input(&mut random, &state, number, now_ms);
        let (next, outcome) = step(program, state.clone(), input.clone(), now_ms);
        let (bare, same) = step(program, without_history(state.clone()), input.clone(), now_ms);
        assert_eq!((without_history(bare), same), (without_history(next.clone()), outcome), "seed {seed}");
        check_history(&next, seed);
        assert!(outcome == Outcome::Applied || next == state, "seed {seed}: {outcome:?} changed the state");
        assert!(!state.status.is_ended() || next.status == state.status, "seed {seed}: an end is final");
        check(&next, seed);
        assert_eq!(State::decode(&next.encode().unwrap()).unwrap(), next, "seed {seed}");
        // Only `Due` may be applied again at the same time: another moment of the instance may be due.
        if input != Input::Due && outcome == Outcome::Applied {
            let (again, outcome) = step(program, next.clone(), input.clone(), now_ms);
            assert!(matches!(outcome, Outcome::Ignored(_)), "seed {seed}: {input:?} was applied twice");
            assert_eq!(again, next, "seed {seed}");
        }
        state = next;
    }
    state.status
}
