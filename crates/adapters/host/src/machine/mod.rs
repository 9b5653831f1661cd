//! Describes the machine that Plimsoll runs on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use plimsoll_measure::environment::Environment;

use crate::process;

mod cgroup;
mod cpu;
mod disk;
mod pressure;
mod watch;

pub use disk::Disk;
pub use watch::HostWatch;

/// Describes the machine. The disk is that of `run_directory`. Unknown values are absent.
pub fn environment(run_directory: &Path) -> Environment {
    Environment {
        cpu: read("/proc/cpuinfo").and_then(|text| cpu_model(&text)),
        cores: cores(),
        governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        memory_bytes: read("/proc/meminfo")
            .and_then(|text| process::named(&text, "MemTotal"))
            .map(|kib| kib * 1024),
        kernel: line("/proc/sys/kernel/osrelease"),
        os: read("/etc/os-release").and_then(|text| os_name(&text)),
        disk: disk(run_directory),
        plimsoll: env!("CARGO_PKG_VERSION").to_owned(),
        optimised: !cfg!(debug_assertions),
    }
}

/// The number of logical cores in this process's affinity mask, not those of the machine.
pub fn cores() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count().max(1))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn line(path: &str) -> Option<String> {
    read(path).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// x86 uses `model name`; some ARM kernels use `Model` or `Hardware`.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "Hardware"].iter().find_map(|name| {
        let value =
            |line: &str| Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim().to_owned());
        cpuinfo.lines().find_map(value)
    })
}

fn os_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

/// `DEVICE (FILE SYSTEM)` of the mount that holds an existing directory.
fn disk(directory: &Path) -> Option<String> {
    let device = fs::metadata(directory).ok()?.dev();
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mounts = read("/proc/self/mountinfo")?;
    let path = directory.canonicalize().ok()?;
    mount_by_device(&mounts, &number).or_else(|| mount_by_path(&mounts, &path))
}

/// One line of mountinfo, see proc(5): `id parent MAJOR:MINOR ROOT POINT options… - TYPE SOURCE OPTIONS`.
struct Mount<'a> {
    number: &'a str,
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    source: &'a str,
    options: &'a str,
}

fn mounts(mountinfo: &str) -> impl Iterator<Item = Mount<'_>> {
    mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(2);
        let (number, root, point) = (left.next()?, left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, source, options) = (right.next()?, right.next()?, right.next().unwrap_or_default());
        Some(Mount { number, root, point, kind, source, options })
    })
}

fn describe(mount: &Mount<'_>) -> String {
    format!("{} ({})", mount.source, mount.kind)
}

fn mount_by_device(mountinfo: &str, number: &str) -> Option<String> {
    mounts(mountinfo).find(|mount| mount.number == number).as_ref().map(describe)
}

/// Finds the mount that holds a path; some file systems (btrfs) give files another device number than the
/// mount's.
fn mount_by_path(mountinfo: &str, path: &Path) -> Option<String> {
    mount_above(mountinfo, path).as_ref().map(describe)
}

/// Finds the mount with the longest mount point above a path.
fn mount_above<'a>(mountinfo: &'a str, path: &Path) -> Option<Mount<'a>> {
    mounts(mountinfo).filter(|mount| path.starts_with(mount.point)).max_by_key(|mount| mount.point.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
        30 22 0:41 / /data rw - btrfs /dev/nvme0n1p2 rw\n";

    #[test]
    fn a_disk_is_named_by_its_device_and_file_system() {
        assert_eq!(mount_by_device(MOUNTS, "8:1").unwrap(), "/dev/sda1 (ext4)");
        assert_eq!(mount_by_device(MOUNTS, "9:9"), None);
        assert_eq!(mount_by_path(MOUNTS, Path::new("/data/runs")).unwrap(), "/dev/nvme0n1p2 (btrfs)");
        assert_eq!(mount_by_path(MOUNTS, Path::new("/home")).unwrap(), "/dev/sda1 (ext4)");
    }

    #[test]
    fn names_are_read_as_the_kernel_and_the_distribution_write_them() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: Epyc 9\n").unwrap(), "Epyc 9");
        assert_eq!(os_name("ID=x\nPRETTY_NAME=\"Debian 12\"\n").unwrap(), "Debian 12");
    }

    #[test]
    fn this_machine_has_cores_memory_and_a_kernel() {
        let environment = environment(&std::env::temp_dir());
        assert!(environment.cores >= 1);
        assert!(environment.memory_bytes.unwrap() > 1 << 20);
        assert!(environment.kernel.is_some() && environment.disk.is_some());
        assert_eq!(environment.optimised, !cfg!(debug_assertions));
    }
}
