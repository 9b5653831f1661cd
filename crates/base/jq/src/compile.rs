//! Compiles the text of a program, and adds the checks that keep its run within bounds.
//!
//! The library repeats texts without a limit, so `*` and `*=` are rewritten to our function, and `range` counts its steps.

use std::mem;

use jaq_core::load::lex::{Lexer, StrPart, Token};
use jaq_core::load::parse::{BinaryOp, Def, Parser, Pattern, Term};
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::ops::Math;
use jaq_core::path::{Part, Path};
use jaq_core::{Compiler, Filter};

use crate::bounds::{Bounded, PRODUCT, functions};

/// A compiled program.
pub(crate) type Compiled = Filter<Bounded>;

/// The name of the program among the definitions.
const PROGRAM: &str = "_program";
/// The name of an internal variable. No program can contain it.
const FACTOR: &str = "$*";
/// Our definitions before the library's: the pipe makes each number a step.
const OURS: &str = "def range($from; $to; $by): _range($from; $to; $by) | .;";

/// Compiles a program with these variables.
///
/// # Errors
///
/// If the program is invalid. The error is the reason.
pub(crate) fn compile(
    text: &str,
    variables: impl IntoIterator<Item = &'static str>,
) -> Result<Compiled, String> {
    let term = guarded(parse(text)?);
    let arena = Arena::default();
    let modules = Loader::new(definitions(term)).load(&arena, File { code: PROGRAM, path: () });
    let modules =
        modules.map_err(|_| "it includes or imports a file, which is not supported here".to_owned())?;
    let compiler = Compiler::default().with_funs(functions()).with_global_vars(variables);
    compiler.compile(modules).map_err(|errors| unknown(&errors))
}

fn parse(text: &str) -> Result<Term<&str>, String> {
    let expected =
        |what: &str, at: &str| format!("expected {what} at {:?}", at.chars().take(200).collect::<String>());
    let tokens = Lexer::new(text).lex().map_err(|errors| {
        errors.first().map_or_else(String::new, |(what, at)| expected(what.as_str(), at))
    })?;
    Parser::new(&tokens).parse(|parser| parser.term()).map_err(|errors| {
        let first = errors.first();
        first.map_or_else(String::new, |(what, at)| expected(what.as_str(), Token::opt_as_str(*at, text)))
    })
}

/// Our definitions, the library's, and the program as the last one.
fn definitions(program: Term<&str>) -> Vec<Def<&str>> {
    fn known<'s>(def: Def<&'static str>) -> Def<&'s str> {
        def
    }
    let ours = load::parse(OURS, |parser| parser.defs()).unwrap_or_default();
    let all = ours.into_iter().chain(jaq_core::defs()).chain(jaq_std::defs()).chain(jaq_json::defs());
    let program = Def { name: PROGRAM, args: Vec::new(), body: program };
    all.map(known).chain([program]).collect()
}

fn unknown<P>(errors: &jaq_core::compile::Errors<&str, P>) -> String {
    let first = errors.first().and_then(|(_, errors)| errors.first());
    first
        .map_or_else(String::new, |(name, undefined)| format!("{} `{name}` is not known", undefined.as_str()))
}

/// The program with our products, at every level.
fn guarded(term: Term<&str>) -> Term<&str> {
    match term {
        Term::Str(format, parts) => Term::Str(format, parts.into_iter().map(guarded_part).collect()),
        Term::Arr(items) => Term::Arr(items.map(boxed)),
        Term::Obj(fields) => {
            Term::Obj(fields.into_iter().map(|(name, value)| (guarded(name), value.map(guarded))).collect())
        }
        Term::Neg(term) => Term::Neg(boxed(term)),
        Term::BinOp(left, operator, right) => operation(guarded(*left), operator, guarded(*right)),
        Term::Label(name, term) => Term::Label(name, boxed(term)),
        Term::Fold(name, all, each, steps) => {
            Term::Fold(name, boxed(all), guarded_pattern(each), steps.into_iter().map(guarded).collect())
        }
        Term::TryCatch(term, catch) => Term::TryCatch(boxed(term), catch.map(boxed)),
        Term::IfThenElse(cases, other) => {
            let cases = cases.into_iter().map(|(condition, then)| (guarded(condition), guarded(then)));
            Term::IfThenElse(cases.collect(), other.map(boxed))
        }
        Term::Def(definitions, term) => {
            let definitions = definitions.into_iter().map(|def| Def { body: guarded(def.body), ..def });
            Term::Def(definitions.collect(), boxed(term))
        }
        Term::Call(name, args) => Term::Call(name, args.into_iter().map(guarded).collect()),
        Term::Path(term, Path(parts)) => {
            let parts = parts.into_iter().map(|(part, opt)| (guarded_place(part), opt));
            Term::Path(boxed(term), Path(parts.collect()))
        }
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => term,
    }
}

fn boxed(mut term: Box<Term<&str>>) -> Box<Term<&str>> {
    *term = guarded(mem::take(&mut *term));
    term
}

/// A part of a text.
type Piece<'s> = StrPart<&'s str, Term<&'s str>>;

fn guarded_part(part: Piece<'_>) -> Piece<'_> {
    match part {
        StrPart::Term(term) => StrPart::Term(guarded(term)),
        StrPart::Str(_) | StrPart::Char(_) => part,
    }
}

fn guarded_place(part: Part<Term<&str>>) -> Part<Term<&str>> {
    match part {
        Part::Index(at) => Part::Index(guarded(at)),
        Part::Range(from, to) => Part::Range(from.map(guarded), to.map(guarded)),
    }
}

fn guarded_pattern(pattern: Pattern<&str>) -> Pattern<&str> {
    match pattern {
        Pattern::Var(_) => pattern,
        Pattern::Arr(items) => Pattern::Arr(items.into_iter().map(guarded_pattern).collect()),
        Pattern::Obj(fields) => {
            let fields = fields.into_iter().map(|(name, it)| (guarded(name), guarded_pattern(it)));
            Pattern::Obj(fields.collect())
        }
    }
}

/// An operation on guarded terms.
fn operation<'s>(left: Term<&'s str>, operator: BinaryOp<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    match operator {
        BinaryOp::Math(Math::Mul) => Term::Call(PRODUCT, vec![left, right]),
        BinaryOp::UpdateMath(Math::Mul) => {
            // `f *= g` is `g as $x | f |= . * $x`.
            let product = Term::Call(PRODUCT, vec![Term::Id, Term::Var(FACTOR)]);
            let update = binary(left, BinaryOp::Update, product);
            binary(right, BinaryOp::Pipe(Some(Pattern::Var(FACTOR))), update)
        }
        BinaryOp::Pipe(pattern) => binary(left, BinaryOp::Pipe(pattern.map(guarded_pattern)), right),
        other => binary(left, other, right),
    }
}

fn binary<'s>(left: Term<&'s str>, operator: BinaryOp<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), operator, Box::new(right))
}
