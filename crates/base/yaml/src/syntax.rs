//! Describes the slips that the YAML parser finds: quotes, brackets, indentation, special characters.

use serde_saphyr::granit_parser::ErrorKind as Kind;

/// The sentence for invalid YAML without a more specific sentence.
pub const INVALID: &str = "the text is not valid YAML here: check quotes, brackets and indentation";
/// The sentence for indentation that does not fit.
pub const INDENTATION: &str = "the indentation does not fit the lines above: indent the keys of a map, and the `-` of a list, by the \
                               same number of spaces";
/// The sentence for a tab in an indentation.
pub const TAB: &str = "a tab is not possible here: indent with spaces";
const COLON: &str = "`:` or a key is not possible here: write `key: value` on a separate line, or quote a text that contains `: `";
const DASH: &str = "`-` is not possible here: begin each value of a list on a separate line, or write [a, b]";
const ESCAPE: &str =
    "an escape in double quotes is invalid: write `\\\\` for a backslash, or use single quotes";
const QUOTE: &str = "the quote is not closed: write the closing quote on the same line";
const TRAILING: &str = "text follows the closing quote: remove it, or quote the whole value";
const ENDS: &str = "the text ends in the middle of a value: complete the value";
const DIRECTIVE: &str = "a line that begins with `%` is a directive of YAML: remove it, or quote the text";
const TAG: &str = "a text that begins with `!` is a tag of YAML: quote it";

/// The sentence for a kind of the parser's errors.
pub fn sentence(kind: &Kind) -> String {
    brackets(kind)
        .or_else(|| layout(kind).or_else(|| characters(kind)).map(str::to_owned))
        .unwrap_or_else(|| INVALID.to_owned())
}

/// Whether a tab is the slip.
pub const fn is_tab(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::TabNotAllowed
            | Kind::TabInBlockIndentation
            | Kind::TabAtBlockScalarStart
            | Kind::TabInIndentation
            | Kind::TabInPlainScalar
    )
}

fn brackets(kind: &Kind) -> Option<String> {
    Some(match kind {
        Kind::ExpectedFlowSequenceSeparator => {
            "a list in [ ] needs `,` between its values and `]` at its end".into()
        }
        Kind::ExpectedFlowMappingSeparator => {
            "a map in { } needs `,` between its keys, `: ` after each key and `}` at its end".into()
        }
        Kind::UnexpectedEofFlowSequence => "`[` is not closed: write `]`".into(),
        Kind::UnexpectedEofFlowMapping | Kind::UnexpectedEofImplicitFlowMapping => {
            "`{` is not closed: write `}`".into()
        }
        Kind::UnclosedFlowCollection { open } => {
            format!("`{open}` is not closed: write `{}`", closing(*open))
        }
        Kind::MismatchedFlowCollectionEnd { open, close } => {
            format!("`{close}` closes `{open}`: write `{}`", closing(*open))
        }
        Kind::MisplacedFlowCollectionEnd => {
            "this bracket closes nothing: remove it, or quote the text".into()
        }
        Kind::RecursionLimitExceeded => "lists and maps are nested too deep: nest them less".into(),
        Kind::UnexpectedCharacter { character } => {
            format!("a text cannot begin with `{}`: quote it", character.escape_default())
        }
        _ => return None,
    })
}

const fn closing(open: char) -> char {
    if open == '[' { ']' } else { '}' }
}

/// Slips of tabs, indentation and the places of keys and values.
fn layout(kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        kind if is_tab(kind) => TAB,
        Kind::InvalidIndentation
        | Kind::ExpectedBlockMappingKey
        | Kind::ExpectedBlockSequenceEntry
        | Kind::InvalidBlockScalarIndent
        | Kind::InvalidFlowScalarIndent
        | Kind::ExpectedDocumentStart => INDENTATION,
        Kind::SimpleKeyExpected | Kind::InvalidSimpleKey => "a key has no `: ` after it: write `key: value`",
        Kind::MappingKeyNotAllowed
        | Kind::MappingValueNotAllowed
        | Kind::InvalidColonPlacement
        | Kind::InvalidMappingValueWhitespace
        | Kind::FlowMappingValueAdjacentCollection => COLON,
        Kind::BlockEntryInFlowCollection
        | Kind::BlockSequenceEntryNotAllowed
        | Kind::InvalidBlockEntryWhitespace
        | Kind::PlainScalarStartsWithDashFlowIndicator => DASH,
        Kind::ExpectedNodeContent | Kind::UnexpectedEndOfPlainScalar => "a value is missing here: write it",
        Kind::UnexpectedEofBlockSequence | Kind::UnexpectedEofBlockMapping | Kind::UnexpectedEof => ENDS,
        Kind::InvalidDocumentEnd | Kind::MissingDocumentEndBeforeDirective => {
            "text follows the end of the document: remove it"
        }
        _ => return None,
    })
}

/// Slips of quotes, escapes, comments and special characters.
fn characters(kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::UnclosedQuotedScalar
        | Kind::InvalidQuotedScalarIndent
        | Kind::DocumentIndicatorInQuotedScalar => QUOTE,
        Kind::InvalidTrailingSingleQuotedScalar | Kind::InvalidTrailingDoubleQuotedScalar => TRAILING,
        Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape
        | Kind::InvalidLowSurrogateHexEscape
        | Kind::InvalidLowSurrogate
        | Kind::MissingLowSurrogate
        | Kind::UnpairedLowSurrogate
        | Kind::InvalidUnicodeEscape => ESCAPE,
        Kind::ZeroBlockScalarIndent | Kind::InvalidBlockScalarHeader => {
            "`|` or `>` begins a text of several lines: begin the text on the next line, indented, or quote it"
        }
        Kind::CommentInterceptedScalar => {
            "a comment is in the middle of a text: quote the text, or move the comment"
        }
        Kind::CommentNotSeparated => "`#` begins a comment only after a space: write a space before it",
        Kind::ExpectedWhitespace => "a space is missing here: write one",
        Kind::BomInsideDocument => "a byte order mark is in the middle of the text: remove it",
        Kind::MissingAnchorOrAliasName => {
            "`&` or `*` needs a name after it: quote a text that begins with it"
        }
        Kind::AnchorCountOverflow => "the text has too many anchors: write some of the values out",
        Kind::ExpectedTagBang
        | Kind::UndeclaredTagHandle
        | Kind::ExpectedTagDirectiveBang
        | Kind::InvalidGlobalTagCharacter
        | Kind::InvalidTagDirectiveTerminator
        | Kind::InvalidTagTerminator
        | Kind::MissingTagUri
        | Kind::UnclosedVerbatimTag
        | Kind::InvalidTagEscape
        | Kind::InvalidTagUtf8LeadingByte
        | Kind::InvalidTagUtf8TrailingByte
        | Kind::InvalidTagUtf8 => TAG,
        Kind::InvalidDirectiveTerminator
        | Kind::DirectiveDisallowed
        | Kind::DuplicateVersionDirective
        | Kind::DuplicateTagDirective
        | Kind::UnsupportedYamlMajorVersion
        | Kind::MissingYamlVersionSeparator
        | Kind::MissingDirectiveName
        | Kind::InvalidDirectiveName
        | Kind::DirectiveByteLimitExceeded { .. }
        | Kind::TooManyReservedDirectiveParams { .. }
        | Kind::YamlVersionTooLong
        | Kind::MissingYamlVersion => DIRECTIVE,
        _ => return None,
    })
}
