//! Names the type bytes of BSON.

/// A 64-bit floating-point number.
pub const DOUBLE: u8 = 0x01;
/// A text in UTF-8.
pub const STRING: u8 = 0x02;
/// An embedded document.
pub const DOCUMENT: u8 = 0x03;
/// An array: a document whose keys are the indexes.
pub const ARRAY: u8 = 0x04;
/// Binary data with a subtype.
pub const BINARY: u8 = 0x05;
/// An ObjectId.
pub const OBJECT_ID: u8 = 0x07;
/// A boolean.
pub const BOOLEAN: u8 = 0x08;
/// A date, in milliseconds since 1970.
pub const DATE: u8 = 0x09;
/// Null.
pub const NULL: u8 = 0x0a;
/// A regular expression.
pub const REGEX: u8 = 0x0b;
/// JavaScript code with a scope.
pub const SCOPED_CODE: u8 = 0x0f;
/// A 32-bit integer.
pub const INT32: u8 = 0x10;
/// A 64-bit integer.
pub const INT64: u8 = 0x12;
/// A decimal number of 128 bits.
pub const DECIMAL: u8 = 0x13;

/// The subtype of plain binary data.
pub const GENERIC: u8 = 0;
/// The subtype of UUIDs.
pub const UUID: u8 = 4;
/// The subtype of vectors.
pub const VECTOR: u8 = 9;
