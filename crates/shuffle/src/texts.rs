//! The least, the greatest and the different texts of a column, for the statistics of data files.

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, LargeUtf8Type, Utf8Type};
use arrow_array::{Array, ArrayRef, GenericByteArray};
use arrow_schema::DataType;

use crate::error::{Error, Result};

/// What is known of the texts of a column that are not missing. Texts are compared by their bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Texts<'a> {
    /// The least text.
    pub least: &'a str,
    /// The greatest text.
    pub greatest: &'a str,
    /// All different texts, in the order of their first rows, if there are not too many.
    pub different: Option<Vec<&'a str>>,
}

/// Describe the texts of a column: none if all are missing.
///
/// # Arguments
/// `most` is the greatest number of different texts that are returned.
///
/// # Errors
/// When the column has no texts with offsets.
pub fn texts(column: &ArrayRef, most: usize) -> Result<Option<Texts<'_>>> {
    match column.data_type() {
        DataType::Utf8 => Ok(described::<Utf8Type>(column.as_bytes(), most)),
        DataType::LargeUtf8 => Ok(described::<LargeUtf8Type>(column.as_bytes(), most)),
        other => Err(Error::Type { what: "describing texts", data_type: other.clone() }),
    }
}

fn described<T: ByteArrayType<Native = str>>(column: &GenericByteArray<T>, most: usize) -> Option<Texts<'_>> {
    match column.nulls().filter(|nulls| nulls.null_count() > 0) {
        Some(nulls) => of(nulls.valid_indices().map(|row| column.value(row)), most),
        None => of((0..column.len()).map(|row| column.value(row)), most),
    }
}

fn of<'a>(mut texts: impl Iterator<Item = &'a str>, most: usize) -> Option<Texts<'a>> {
    let mut last = texts.next()?;
    let mut different = vec![last];
    while different.len() <= most {
        let Some(text) = texts.next() else {
            let (least, greatest) = (*different.iter().min()?, *different.iter().max()?);
            return Some(Texts { least, greatest, different: Some(different) });
        };
        if text != last && !different.contains(&text) {
            different.push(text);
        }
        last = text;
    }
    let (mut least, mut greatest) = (*different.iter().min()?, *different.iter().max()?);
    for text in texts {
        if text < least {
            least = text;
        } else if text > greatest {
            greatest = text;
        }
    }
    Some(Texts { least, greatest, different: None })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int64Array, LargeStringArray, StringArray};

    use super::*;

    #[test]
    fn few_texts_are_returned() {
        let column: ArrayRef = Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("é")]));
        let found = Texts { least: "a", greatest: "é", different: Some(vec!["b", "a", "é"]) };
        assert_eq!(texts(&column, 3).expect("they are texts"), Some(found));
        assert_eq!(texts(&column.slice(1, 1), 3).expect("they are texts"), None);
        assert_eq!(texts(&column.slice(0, 0), 3).expect("they are texts"), None);
    }

    #[test]
    fn many_texts_have_bounds() {
        let column: ArrayRef =
            Arc::new(LargeStringArray::from_iter_values((0..100).map(|i| format!("{}", i * 7 % 100))));
        let found = texts(&column, 8).expect("they are texts").expect("none is missing");
        assert_eq!((found.least, found.greatest, found.different), ("0", "99", None));
        let found = texts(&column, 100).expect("they are texts").expect("none is missing");
        assert_eq!(found.different.map(|texts| texts.len()), Some(100));
        assert_eq!(texts(&column, 99).expect("they are texts").expect("none is missing").different, None);
        assert_eq!(texts(&column.slice(3, 1), 0).expect("they are texts").map(|found| found.least), Some("21"));
    }

    #[test]
    fn other_columns_are_refused() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(matches!(texts(&column, 8), Err(Error::Type { .. })));
    }
}
