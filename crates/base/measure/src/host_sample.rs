//! Defines the use of the server's machine in a tenth of a second, as the kernel reports it.

/// The use of CPUs, memory and disk between two readings of the kernel's counters. Values that cannot be read are absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostSample {
    /// Nanoseconds from the run's start to the first reading.
    pub from_ns: u64,
    /// Nanoseconds from the run's start to the second reading.
    pub to_ns: u64,
    /// Cores that all threads of the server used.
    pub cores_used: Option<f64>,
    /// The share of a core that the server's busiest thread used.
    pub busiest_thread: Option<f64>,
    /// Mean number of the server's threads that were ready to run and had no CPU.
    pub threads_waiting: Option<f64>,
    /// Cores that the server may use by its affinity and by the CPU quotas of its cgroups.
    pub cores_allowed: Option<f64>,
    /// Idle cores among the CPUs of the server's affinity.
    pub cores_idle: Option<f64>,
    /// The share of the CPUs' time that the hypervisor gave to other machines.
    pub stolen: Option<f64>,
    /// The share of the time in which a CPU quota stopped the server; added up over its CPUs, at most 1.
    pub throttled: Option<f64>,
    /// Whether the pressures are those of the server's own cgroup, and not those of the whole machine.
    pub pressure_is_own: bool,
    /// The share of the time in which some task waited for a CPU: pressure stall information.
    pub cpu_pressure: Option<f64>,
    /// The share of the time in which some task waited for input or output.
    pub io_pressure: Option<f64>,
    /// The share of the time in which some task waited for memory.
    pub memory_pressure: Option<f64>,
    /// The share of the time in which the disk below the server's storage was busy, for any process.
    pub disk_busy: Option<f64>,
}

impl HostSample {
    /// The same machine without a load: every readable value is zero, except for the allowed and the idle cores.
    #[must_use]
    pub fn idle(&self) -> Self {
        let none = |value: Option<f64>| value.map(|_| 0.0);
        Self {
            cores_used: none(self.cores_used),
            busiest_thread: none(self.busiest_thread),
            threads_waiting: none(self.threads_waiting),
            cores_idle: self.cores_allowed,
            stolen: none(self.stolen),
            throttled: none(self.throttled),
            cpu_pressure: none(self.cpu_pressure),
            io_pressure: none(self.io_pressure),
            memory_pressure: none(self.memory_pressure),
            disk_busy: none(self.disk_busy),
            ..*self
        }
    }
}
