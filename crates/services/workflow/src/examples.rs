//! Holds the shipped definitions.

/// A shipped definition.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// The name.
    pub name: &'static str,
    /// The text of its file.
    pub text: &'static str,
}

macro_rules! examples {
    ($($name:literal),* $(,)?) => {
        /// All shipped definitions. Each comes after the definitions that it starts.
        pub const ALL: &[Example] = &[
            $(Example { name: $name, text: include_str!(concat!("../../../../workflows/", $name, ".yaml")) }),*
        ];
    };
}

examples!["pdf", "convert-to-policy", "quotation-confirm", "quote-cancel", "external-resume"];

#[cfg(test)]
mod tests {
    use plimsoll_workflow::file::read;

    use super::*;
    use crate::calls::unknown_function;

    #[test]
    fn every_example_compiles_has_its_name_and_calls_known_functions() {
        for example in ALL {
            let (definition, program) = read(example.text).unwrap();
            assert_eq!(definition.name, example.name);
            assert_eq!(unknown_function(&program), None, "{}", example.name);
            assert!(definition.description.is_some(), "{}", example.name);
        }
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../workflows")).unwrap();
        assert_eq!(files.count(), ALL.len(), "each file is shipped");
    }
}
