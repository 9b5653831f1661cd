//! Parses the path of a value in a JSON document: `items.0.id`, or the JSON pointer `/items/0/id` if a key contains a dot.

/// The steps from the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    steps: Vec<Step>,
}

/// One step: a key of an object, or an index of an array if it is a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) key: String,
    pub(crate) index: Option<usize>,
}

impl Path {
    /// Parses a path; `None` if it is invalid.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let steps: Vec<Step> = match text.strip_prefix('/') {
            Some(pointer) => {
                pointer.split('/').map(|key| Step::new(key.replace("~1", "/").replace("~0", "~"))).collect()
            }
            None => text.split('.').map(|key| Step::new(key.to_owned())).collect(),
        };
        let is_valid = text.starts_with('/') || steps.iter().all(|step| !step.key.is_empty());
        is_valid.then_some(Self { steps })
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl Step {
    fn new(key: String) -> Self {
        Self { index: key.parse().ok(), key }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_dotted_or_a_pointer() {
        let keys = |text: &str| {
            let path = Path::parse(text)?;
            Some(path.steps().iter().map(|step| step.key.clone()).collect::<Vec<_>>().join("|"))
        };
        assert_eq!(keys("items.0.id").as_deref(), Some("items|0|id"));
        assert_eq!(keys("/a.b/c~1d/~0").as_deref(), Some("a.b|c/d|~"));
        assert_eq!((keys(""), keys("a..b"), keys(".")), (None, None, None));
        assert_eq!(Path::parse("a.7").unwrap().steps()[1].index, Some(7));
    }
}
