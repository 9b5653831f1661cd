//! Reads the weights of a trained model by name.

use safetensors::tensor::{Dtype, SafeTensors};

use super::ConvertError;

/// A file of weights.
pub(crate) struct Weights<'a>(SafeTensors<'a>);

/// Numbers in row order, [rows, columns].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f32>,
}

impl<'a> Weights<'a> {
    /// Reads the table of a safetensors file.
    ///
    /// # Errors
    /// [`ConvertError::Weights`]: the file has another format.
    pub(crate) fn read(file: &'a [u8]) -> Result<Self, ConvertError> {
        SafeTensors::deserialize(file).map(Weights).map_err(|error| ConvertError::Weights(error.to_string()))
    }

    /// Reads a matrix of a given shape.
    ///
    /// # Errors
    /// [`ConvertError::Weights`]: the matrix is missing, has another shape, or contains no floats.
    pub(crate) fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, ConvertError> {
        Ok(Matrix { rows, columns, values: self.values(name, &[rows, columns])? })
    }

    /// Reads a vector of a given length.
    ///
    /// # Errors
    /// As for a matrix.
    pub(crate) fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, ConvertError> {
        self.values(name, &[length])
    }

    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, ConvertError> {
        let tensor = self.0.tensor(name).map_err(|error| ConvertError::Weights(error.to_string()))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            let found = format!("{name} is {:?} {:?}, not F32 {shape:?}", tensor.dtype(), tensor.shape());
            return Err(ConvertError::Weights(found));
        }
        Ok(tensor
            .data()
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
            .collect())
    }
}

impl Matrix {
    /// Swaps rows and columns.
    pub(crate) fn transposed(&self) -> Self {
        let Matrix { rows, columns, values } = self;
        let at = |index: usize| values[(index % rows) * columns + index / rows];
        Matrix { rows: *columns, columns: *rows, values: (0..rows * columns).map(at).collect() }
    }

    /// Appends the rows of another matrix with the same number of columns.
    pub(crate) fn above(mut self, other: Matrix) -> Self {
        assert_eq!(self.columns, other.columns);
        self.rows += other.rows;
        self.values.extend(other.values);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &[u8], expected: &str) {
        let error = Weights::read(file).and_then(|weights| weights.vector("a", 2)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }

    /// A file with one tensor `a`.
    fn file(kind: &str, shape: &str, data: &[u8]) -> Vec<u8> {
        let head =
            format!(r#"{{"a":{{"dtype":"{kind}","shape":{shape},"data_offsets":[0,{}]}}}}"#, data.len());
        let mut file = (head.len() as u64).to_le_bytes().to_vec();
        file.extend(head.as_bytes());
        file.extend(data);
        file
    }

    #[test]
    fn a_vector_is_read_in_order() {
        let data: Vec<u8> = [1.5_f32, -2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let file = file("F32", "[2]", &data);
        assert_eq!(Weights::read(&file).unwrap().vector("a", 2).unwrap(), [1.5, -2.0]);
    }

    #[test]
    fn another_format_shape_or_type_is_refused() {
        check(b"", "the weights");
        check(&[0xff; 64], "the weights");
        check(&file("F32", "[3]", &[0; 12]), "a is F32 [3], not F32 [2]");
        check(&file("I64", "[2]", &[0; 16]), "a is I64 [2], not F32 [2]");
        check(&file("F32", "[2]", &[0; 4]), "the weights");
    }

    #[test]
    fn a_matrix_is_transposed_and_stacked() {
        let matrix = Matrix { rows: 2, columns: 3, values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        let expected = Matrix { rows: 3, columns: 2, values: vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0] };
        assert_eq!(matrix.transposed(), expected);
        assert_eq!(matrix.clone().above(matrix).rows, 4);
    }
}
