//! Tests tables: the documents of their rows, and the errors of invalid ones.

use bson::{DateTime, Document, doc};
use plimsoll_document::{Encoded, FileSource, IdForm, PastEnd, Reading, Settings};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

use crate::file::{document, file, open, refused};
use crate::{IDENTITY, settings};

/// The documents of a table, without receipts and stamps.
fn documents(suffix: &str, bytes: &[u8]) -> Vec<Document> {
    let file = file(suffix, bytes);
    let source = open(file.path(), &Settings { stamp: None, ..settings() }, PastEnd::Stop).unwrap();
    let without_id = |number| {
        let mut document = document(&source, number);
        document.remove("_id");
        document
    };
    (0..source.records()).map(without_id).collect()
}

fn check(table: &str, expected: &[Document]) {
    assert_eq!(documents(".csv", table.as_bytes()), expected, "{table:?}");
}

#[track_caller]
fn check_refused(table: impl AsRef<[u8]>, message: &str) {
    assert_eq!(refused(".csv", table.as_ref(), &settings()), message);
}

#[test]
fn every_row_is_a_document_with_the_fields_of_the_first_line() {
    let date = DateTime::from_millis(1_769_860_800_000);
    check(
        "name,age,big,share,member,since\nAnn,41,5000000000,0.5,true,2026-01-31T12:00:00Z\nBo,,,,,never\n",
        &[
            doc! {"name": "Ann", "age": 41, "big": 5_000_000_000_i64, "share": 0.5, "member": true, "since": date},
            doc! {"name": "Bo", "since": "never"},
        ],
    );
}

#[test]
fn receipts_stamps_ids_and_the_end_behave_as_in_other_files() {
    let file = file(".csv", b"a,_id\n1,x\n2,y\n");
    let source = open(file.path(), &settings(), PastEnd::Repeat).unwrap();
    let id = bson::oid::ObjectId::from_bytes(IDENTITY.id);
    assert_eq!(document(&source, 3), doc! {"_id": id, "a": 2, "_p": -7_i64});
    assert_eq!((source.records(), source.documents_max()), (2, None));
    let own = Settings { id: IdForm::Own, stamp: None, ..settings() };
    let source = open(file.path(), &own, PastEnd::Stop).unwrap();
    assert_eq!(document(&source, 0), doc! {"a": 1, "_id": "x"});
    assert_eq!(source.encode(2, &IDENTITY, &mut Vec::new()), Encoded::PastEnd);
    assert_eq!(source.hash().as_slice(), Sha256::digest(b"a,_id\n1,x\n2,y\n").as_slice());
}

#[test]
fn dots_make_documents_and_empty_documents_are_omitted() {
    check(
        "a.b,x,a.c.d,a.c.e,0.1\n1,2,3,4,5\n,2,,,\n1,,,4,\n,,,,\n",
        &[
            doc! {"a": {"b": 1, "c": {"d": 3, "e": 4}}, "x": 2, "0": {"1": 5}},
            doc! {"x": 2},
            doc! {"a": {"b": 1, "c": {"e": 4}}},
            doc! {},
        ],
    );
}

#[test]
fn the_first_line_may_fix_types() {
    check(
        "zip.string(),n.int64(),a.d.double(),ok.boolean(),day.date(2006-01-02),at.date(),x.auto()\n\
         01234,5,1,1,1970-01-02,1970-01-01T00:00:01Z,1\n,,,,,,\n",
        &[
            doc! {
                "zip": "01234", "n": 5_i64, "a": {"d": 1.0}, "ok": true, "day": DateTime::from_millis(86_400_000),
                "at": DateTime::from_millis(1000), "x": 1,
            },
            doc! {},
        ],
    );
    check("price (EUR),f()\n1.5,2\n", &[doc! {"price (EUR)": 1.5, "f()": 2}]);
}

#[test]
fn quotes_follow_rfc_4180() {
    check(
        "a,\"b,c\",d\r\n\"x, \"\"y\"\"\",\"two\r\nlines\",\"5\"\r\n\"\",\"\n\",end",
        &[doc! {"a": "x, \"y\"", "b,c": "two\r\nlines", "d": 5}, doc! {"b,c": "\n", "d": "end"}],
    );
}

#[test]
fn tabs_byte_order_marks_and_empty_lines_are_accepted() {
    let expected = [doc! {"a": "x,y", "b": 2}, doc! {"a": "ü", "b": 3}];
    assert_eq!(documents(".tsv", "a\tb\nx,y\t2\n\"ü\"\t3\n".as_bytes()), expected);
    check("\u{feff}a,b\n\n\r\n\"x,y\",2\n\nü,3\n\n\n", &expected);
    check("a\n1", &[doc! {"a": 1}]);
    check("a\n\"1\"", &[doc! {"a": 1}]);
    check("a\r\n1\r", &[doc! {"a": 1}]);
}

#[test]
fn an_invalid_first_line_names_the_column_and_the_remedy() {
    let name = "a field without a name; name every column in the first line, and every part between dots";
    check_refused("a,,c\n1,2,3\n", &format!("line 1, column 2 (\"\"): {name}"));
    check_refused("a,b..c\n1,2\n", &format!("line 1, column 2 (\"b..c\"): {name}"));
    check_refused(".string()\n1\n", &format!("line 1, column 1 (\".string()\"): {name}"));
    check_refused("a,b,a\n1,2,3\n", "line 1, column 3 (\"a\"): named twice; rename one of the columns");
    for second in ["a.b,a.b.c", "a.b.c,a.b"] {
        let column = second.split_once(',').unwrap().1;
        check_refused(
            format!("{second}\n1,2\n"),
            &format!(
                "line 1, column 2 ({column:?}): \"a.b\" is a value in one column and a document in another; rename one of \
                 the columns"
            ),
        );
    }
    check_refused(
        "\na,b.integer()\n1,2\n",
        "line 2, column 2 (\"b.integer()\"): integer() is not a type; write one of auto(), boolean(), date(), decimal(), \
         double(), int32(), int64(), string(), or no type at all",
    );
    check_refused(
        "a.date(02.01.2006)\n1\n",
        "line 1, column 1 (\"a.date(02.01.2006)\"): date(02.01.2006) is not understood; write date(), or \
         date(2006-01-02) for days without a time",
    );
    check_refused(
        "a;b\n1;2\n",
        "line 1, column 1 (\"a;b\"): the header is one name that looks like several; separate values by commas in .csv and \
         by tabs in .tsv",
    );
    check_refused("a\0b,c\n", "line 1, column 1 (\"a\\0b\"): a name with a NUL byte; is this a text file?");
    check_refused(
        vec!["a"; 101].join("."),
        &format!(
            "line 1, column 1 ({:?}): nested deeper than 100 levels; use fewer dots",
            vec!["a"; 101].join(".")
        ),
    );
}

#[test]
fn a_row_of_another_length_is_refused_at_its_line() {
    let remedy = "add missing ones, and quote values that hold the separator";
    check_refused("a,b\n1,2\n3\n", &format!("line 3: 1 values for 2 columns; {remedy}"));
    check_refused("a,b\n\"\n\n\",2\n\n1,2,3\n", &format!("line 6: 3 values for 2 columns; {remedy}"));
}

#[test]
fn an_invalid_value_names_line_column_and_remedy() {
    let remedy = "correct it, or give the column another type in the first line, such as string()";
    check_refused(
        "a,b.n.int32()\n1,2\n\"x\ny\",\"2.5\"\n",
        &format!(
            "line 3, column 2 (\"b.n\"): \"2.5\" is not a valid int32 (a whole number from -2147483648 to 2147483647); {remedy}"
        ),
    );
    check_refused(
        "at.date()\nyesterday\n",
        &format!(
            "line 2, column 1 (\"at\"): \"yesterday\" is not a valid date (as 2026-01-31T12:00:00Z); {remedy}"
        ),
    );
    check_refused(
        b"a,b\n1,\xfc\n",
        "line 2, column 2 (\"b\"): not UTF-8; convert the file first, for example with iconv -f latin1 -t utf-8",
    );
}

#[test]
fn an_unclosed_quote_is_refused_at_the_start_of_its_row() {
    let message = "line 3: a quote that is opened in this row is never closed; close it, and write a quote within a value twice";
    for rest in ["3,\"x", "3,\"x\n4,5\n", "\"", "3,\"x\"\""] {
        check_refused(format!("a,b\n1,2\n{rest}"), message);
    }
}

#[test]
fn conflicts_with_the_identity_are_refused_at_their_line() {
    check_refused(
        "a,_p\n1,\n1,2\n",
        "line 3: already has a field \"_p\", which is the stamp's name; rename the stamp or turn it off",
    );
    let message = refused(".csv", b"a,_id\n1,1\n2,\n", &Settings { id: IdForm::Own, ..settings() });
    assert_eq!(message, "line 3: has no _id, which `id: own` requires; leave `id` out to send receipts");
}

#[test]
fn tables_have_limits() {
    check_refused("a,".repeat(5000), "line 1: more than 4096 columns; split the table");
    let names: Vec<_> = (0..4096).map(|number| format!("a{number}")).collect();
    assert_eq!(documents(".csv", format!("{0}\n{0}\n", names.join(",")).as_bytes())[0].len(), 4096);
    let long = format!("a,b\n1,\"{}\n", "x".repeat(17_000_000));
    check_refused(&long, "line 2: a row of more than 16777216 bytes; is a quote left open?");
    let long = format!("a\n{}\n", "x".repeat(16_777_216 - 30));
    check_refused(&long, "line 2: 16777228 bytes, over MongoDB's limit of 16777216; leave the document out");
    let file = file(".csv", b"a\n1\n");
    let reading = Reading { memory_bytes_max: 10, ..Reading::default() };
    let message = FileSource::open(file.path(), &settings(), reading).unwrap_err().to_string();
    assert!(message.contains("line 2: ") && message.contains("more than 10 bytes of memory"), "{message}");
}

#[test]
fn a_table_without_rows_is_empty() {
    for table in ["", "\n\n", "a,b\n", "a,b", "\u{feff}"] {
        check_refused(table, "holds no documents; name another file");
    }
}

proptest! {
    #[test]
    fn every_valid_table_is_read_back(
        rows in proptest::collection::vec(proptest::collection::vec("[a-zA-Z ,\"\r\n\tüß.-]{0,12}", 3), 1..20),
    ) {
        let quoted = |row: &Vec<String>| {
            row.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect::<Vec<_>>().join(",")
        };
        let table = rows.iter().map(quoted).fold("a.string(),b.string(),c.string()".to_owned(), |table, row| table + "\n" + &row);
        let expected: Vec<Document> = rows.iter().map(|row| {
            let values = ["a", "b", "c"].iter().zip(row).filter(|(_, value)| !value.is_empty());
            values.map(|(name, value)| (name.to_string(), bson::Bson::String(value.clone()))).collect()
        }).collect();
        prop_assert_eq!(documents(".csv", table.as_bytes()), expected);
    }

    #[test]
    fn no_input_bytes_cause_a_panic(bytes in proptest::collection::vec(proptest::sample::select(b"a1.,;\"\n\r\t()\xff\0".as_slice()), 0..80)) {
        let file = file(".csv", &bytes);
        if let Ok(source) = open(file.path(), &settings(), PastEnd::Stop) {
            for number in 0..source.records() {
                document(&source, number);
            }
        }
    }
}
