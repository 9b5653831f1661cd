//! Reads the busy time of a disk from the kernel's counters.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{mount_above, read};

/// The field of a block device's `stat` that counts the milliseconds in which the device was busy: `io_ticks`
/// in the kernel's `Documentation/block/stat.rst`, from 0.
const IO_TICKS: usize = 9;

/// The disk (or partition) that holds a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    stat: PathBuf,
}

impl Disk {
    /// Finds the disk that holds a directory. `None` if the file system lies on no block device that the
    /// kernel counts, for example in memory or on the network.
    pub fn below(directory: &Path) -> Option<Self> {
        let disk = |device| Some(Self { stat: stat(device) }).filter(|disk| disk.busy_ms().is_some());
        // Some file systems (btrfs) give files a device number that belongs to no disk; their mount names the
        // disk.
        disk(fs::metadata(directory).ok()?.dev()).or_else(|| disk(mounted(directory)?))
    }

    /// The time since the machine's start in which the disk was busy, for any process, in milliseconds.
    pub fn busy_ms(&self) -> Option<u64> {
        io_ticks(&fs::read_to_string(&self.stat).ok()?)
    }
}

fn stat(device: u64) -> PathBuf {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    Path::new("/sys/dev/block").join(format!("{major}:{minor}")).join("stat")
}

/// The device that holds a directory.
fn mounted(directory: &Path) -> Option<u64> {
    let source = source(&read("/proc/self/mountinfo")?, &directory.canonicalize().ok()?)?;
    Some(fs::metadata(source).ok()?.rdev())
}

/// The device file that holds a path.
fn source(mountinfo: &str, path: &Path) -> Option<PathBuf> {
    let source = mount_above(mountinfo, path)?.source;
    source.starts_with("/dev/").then(|| PathBuf::from(source))
}

fn io_ticks(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(IO_TICKS)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_input_and_output_is_the_tenth_field() {
        let stat = "  445981    31620 14294626   460942    75628    93792 34984392   146937        0    29864   613781\n";
        assert_eq!(io_ticks(stat), Some(29_864));
        assert_eq!(io_ticks("1 2 3"), None);
    }

    #[test]
    fn a_mount_names_its_disk() {
        let mounts =
            "30 22 0:41 / /data rw - btrfs /dev/nvme0n1p2 rw\n31 22 0:42 / /run rw - tmpfs tmpfs rw\n";
        let source = |path| source(mounts, Path::new(path));
        assert_eq!(source("/data/db"), Some(PathBuf::from("/dev/nvme0n1p2")));
        assert_eq!(source("/run/db"), None);
        assert_eq!(source("/home"), None);
    }

    #[test]
    fn files_of_the_kernel_lie_on_no_disk() {
        assert_eq!(Disk::below(Path::new("/proc")), None);
        assert_eq!(Disk::below(Path::new("/nowhere")), None);
    }
}
