//! Compares a cell with the cells that differ from it on the first axis only.

use super::{Cell, Matrix, OperationFigures};

impl Matrix {
    /// The names of the shown operations: those of the scenario, in its order, or all.
    pub fn operations(&self) -> Vec<&str> {
        if !self.show.is_empty() {
            return self.show.iter().map(String::as_str).collect();
        }
        let mut names: Vec<&str> = self
            .cells
            .iter()
            .filter_map(|cell| cell.figures.as_ref())
            .flat_map(|figures| figures.operations.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// The rate of `operation` in `cell` as a share of the best cell of its group: the cells that differ on the first
    /// axis only. Nothing if unknown, or without a cell to compare with.
    pub fn share_of_best(&self, cell: &Cell, operation: &str) -> Option<f64> {
        let rate = |figures: &OperationFigures| Some(figures.documents_per_s?.median);
        let group = self.group(cell, operation, rate);
        let best = group.iter().copied().fold(0.0, f64::max);
        (group.len() > 1 && best > 0.0).then(|| Some(rate(cell.of(operation)?)? / best))?
    }

    /// The tool's CPU for one `operation` in `cell` ÷ the least in its group, as for
    /// [`share_of_best`](Self::share_of_best). Cells whose operations have other numbers of documents are left out.
    pub fn times_least_cpu(&self, cell: &Cell, operation: &str) -> Option<f64> {
        let own = cell.of(operation)?;
        let cpu = |figures: &OperationFigures| Some(figures.client_cpu_us_per_operation?.median);
        let group = self.group(cell, operation, |other| cpu(other).filter(|_| own.has_size_of(other)));
        let least = group.iter().copied().fold(f64::INFINITY, f64::min);
        (group.len() > 1 && least > 0.0).then(|| Some(cpu(own)? / least))?
    }

    /// The figures that `pick` finds for `operation` in `cell` and in the cells that differ on the first axis only.
    fn group(
        &self,
        cell: &Cell,
        operation: &str,
        pick: impl Fn(&OperationFigures) -> Option<f64>,
    ) -> Vec<f64> {
        let Some(first) = self.axes.first() else { return Vec::new() };
        let is_comparable = |other: &&Cell| {
            cell.values
                .iter()
                .all(|(axis, value)| *axis == first.name || other.values.get(axis) == Some(value))
        };
        self.cells.iter().filter(is_comparable).filter_map(|cell| pick(cell.of(operation)?)).collect()
    }
}

impl Matrix {
    /// Whether its runs were audited; runs of a service are not.
    pub fn is_audited(&self) -> bool {
        let mut figures = self.cells.iter().filter_map(|cell| cell.figures.as_ref()).peekable();
        figures.peek().is_none() || figures.any(|figures| figures.integrity.is_some())
    }

    /// Whether it counts requests to a service that carry one document at most.
    pub fn counts_requests(&self) -> bool {
        let names = self.operations();
        let shown = || self.cells.iter().flat_map(|cell| names.iter().filter_map(|name| cell.of(name)));
        let single =
            |figures: &OperationFigures| figures.documents_per_operation.is_none_or(|count| count <= 1.0);
        !self.is_audited() && shown().all(single)
    }
}

impl Cell {
    /// The figures of an operation.
    pub fn of(&self, operation: &str) -> Option<&OperationFigures> {
        self.figures.as_ref()?.operations.get(operation)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::matrix;
    use super::super::{Matrix, Spread};

    #[test]
    fn a_cell_is_compared_with_those_that_differ_on_the_first_axis_only() {
        let matrix =
            matrix(&[("one", "10K", 5.0), ("one", "1M", 6.0), ("all", "10K", 20.0), ("grid", "1M", 3.0)]);
        let share = |index: usize| matrix.share_of_best(&matrix.cells[index], "insert");
        assert_eq!((share(0), share(2)), (Some(0.25), Some(1.0)));
        assert_eq!((share(1), share(3)), (Some(1.0), Some(0.5)));
        assert_eq!(matrix.share_of_best(&matrix.cells[0], "find"), None);
    }

    #[test]
    fn cpu_is_compared_between_operations_of_the_same_size_only() {
        let mut matrix = matrix(&[
            ("lean", "10K", 1.0),
            ("driver", "10K", 1.0),
            ("batched", "10K", 1.0),
            ("lean", "1M", 1.0),
        ]);
        for (cell, (cpu, documents)) in
            matrix.cells.iter_mut().zip([(20.0, 1.0), (50.0, 1.0), (400.0, 100.0), (20.0, 1.0)])
        {
            let operations = &mut cell.figures.as_mut().unwrap().operations;
            let figures = operations.get_mut("insert").unwrap();
            figures.client_cpu_us_per_operation = Spread::of([cpu]);
            figures.documents_per_operation = Some(documents);
        }
        let times = |index: usize| matrix.times_least_cpu(&matrix.cells[index], "insert");
        assert_eq!((times(0), times(1)), (Some(1.0), Some(2.5)));
        assert_eq!((times(2), times(3)), (None, None), "no other cell has their number of documents");
    }

    #[test]
    fn a_matrix_of_a_service_counts_requests_unless_they_carry_several_documents() {
        let mut matrix = matrix(&[("lean", "10K", 1.0)]);
        assert!(matrix.is_audited() && !matrix.counts_requests());
        let figures = matrix.cells[0].figures.as_mut().unwrap();
        figures.integrity = None;
        figures.operations.get_mut("insert").unwrap().documents_per_operation = Some(1.0);
        assert!(!matrix.is_audited() && matrix.counts_requests());
        let figures = matrix.cells[0].figures.as_mut().unwrap();
        figures.operations.get_mut("insert").unwrap().documents_per_operation = Some(100.0);
        assert!(!matrix.counts_requests());
        assert!(Matrix::default().is_audited(), "nothing is known yet");
    }

    #[test]
    fn only_operations_named_by_the_scenario_are_shown() {
        let mut matrix = matrix(&[("one", "10K", 5.0)]);
        assert_eq!(matrix.operations(), ["insert"]);
        matrix.show = vec!["work".into(), "insert".into()];
        assert_eq!(matrix.operations(), ["work", "insert"]);
    }
}
