//! Converts partitions and positions between the pipeline and the client library.

use plimsoll_pipeline::{Partition, Position, SourceError};
use rdkafka::error::KafkaResult;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{Offset, TopicPartitionList};

use crate::error::words;

/// The partitions of a list.
pub(super) fn partitions(list: &TopicPartitionList) -> Vec<Partition> {
    let partition =
        |at: &TopicPartitionListElem<'_>| Partition::new(at.topic(), at.partition().unsigned_abs());
    list.elements().iter().map(partition).collect()
}

/// A partition's number.
pub(super) fn number(partition: &Partition) -> i32 {
    i32::try_from(partition.index).unwrap_or(i32::MAX)
}

/// A position's offset.
pub(super) fn offset(position: &Position) -> Offset {
    Offset::Offset(i64::try_from(position.next).unwrap_or(i64::MAX))
}

/// Positions as a list to commit.
pub(crate) fn offsets<'a>(
    positions: impl IntoIterator<Item = (&'a Partition, &'a Position)>,
) -> Result<TopicPartitionList, SourceError> {
    let mut list = TopicPartitionList::new();
    for (partition, position) in positions {
        let added = list.add_partition_offset(&partition.topic, number(partition), offset(position));
        failed("naming an offset", added)?;
    }
    Ok(list)
}

/// Reports the refusal of an action, which a retry cannot fix.
pub(super) fn failed<T>(doing: &str, result: KafkaResult<T>) -> Result<T, SourceError> {
    result.map_err(|error| SourceError::Failed(format!("{doing} was refused ({})", words(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_convert_to_a_list_and_back() {
        let (first, second) = (Partition::new("t", 0), Partition::new("t", 7));
        let list = offsets([(&first, &Position::at(5)), (&second, &Position::at(9))]).unwrap();
        assert_eq!(partitions(&list), [first, second]);
        assert_eq!(list.elements()[1].offset(), Offset::Offset(9));
    }
}
