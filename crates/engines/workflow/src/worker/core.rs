//! Decides about all work of a worker. It never waits, never reads a clock and never connects.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::mem::take;
use std::sync::Arc;

use super::job::{Change, Happened, Hint, Job, Tag};
use super::lease::Held;
use super::left::Left;
use super::registry::Registry;
use super::settings::Settings;
use super::slot::{Loaded, Slot, Stepped};
use crate::definition::Version;
use crate::expression::STEPS_MAX;
use crate::instance::{DeadLetter, DeadReason, Signal, State, weight};
use crate::port::{
    Commit, Committed, Deployed, Due, Postponed, Record, SignalKey, StoreError, Stored, partition_of,
};

/// The time before the worker looks again at an instance whose definition or form is unknown.
const UNREADABLE_MS: u64 = 5_000;
/// The time before the first further delivery of a signal without an instance; it doubles.
const UNKNOWN_MS: u64 = 500;
/// The largest step back of a clock that does not count as a jump.
const CLOCK_BACK_MS: u64 = 1_000;
/// The longest time before an instance whose change failed is tried again. The first one is `poll_min_ms`; it doubles.
const PAUSE_MAX_MS: u64 = 5_000;
/// Steps of jq programs in one turn at most, about: half a second. A longer turn would delay the renewal of leases.
const TURN_STEPS_MAX: u64 = 5 * STEPS_MAX;
/// Signals of the near future in memory at most. Later ones stay in the store until these are due.
const DELAYED_MAX: usize = 512;
/// The time between two removals of forgotten signals.
const FORGET_EVERY_MS: u64 = 60_000;
/// Time after which a worker without work looks again at its clock.
const WAKE_MAX_MS: u64 = 60_000;

/// The decisions of one worker.
pub struct Core {
    settings: Settings,
    partitions: u16,
    registry: Arc<Registry>,
    held: Held,
    slots: BTreeMap<String, Slot>,
    generations: u64,
    /// Instances to look at in this turn.
    touched: BTreeSet<String>,
    /// Instances that the bound of steps left to the next turn.
    later: BTreeSet<String>,
    /// The steps of jq programs in this turn.
    turn_steps: u64,
    alarms: BinaryHeap<Reverse<(u64, String)>>,
    /// Signals of the near future.
    delayed: BTreeMap<(u64, SignalKey), Signal>,
    delayed_weight: usize,
    /// Whether further signals of the near future stayed in the store.
    is_delayed_cut: bool,
    scan_at_ms: u64,
    scan_gap_ms: u64,
    is_scanning: bool,
    /// Whether the last scan left work in the store.
    is_more: bool,
    /// Signals that the store removed since the scan under way began. The scan may still deliver them.
    gone: BTreeSet<SignalKey>,
    /// Instances that left the memory. A scan under way or a late hint may deliver an older version, whose calls would be repeated.
    left: Left,
    commits: usize,
    calls: usize,
    /// Instances whose calls wait, the first one first.
    queue: VecDeque<String>,
    /// Instances whose changes wait for a commit, the first one first.
    ready: VecDeque<String>,
    /// Changes that postpone instances that this version cannot read.
    deferred: BTreeMap<String, (Tag, Commit)>,
    remove: Vec<SignalKey>,
    bury: Vec<DeadLetter>,
    postpone: Vec<Postponed>,
    jobs: Vec<Job>,
    /// Instances to load, not before a moment.
    missing: BTreeSet<String>,
    load_at_ms: u64,
    /// The weight of signals that wait in the slots.
    backlog: usize,
    /// The weight of the instances in memory.
    weight: usize,
    looks: u64,
    last_ms: u64,
    /// The moment of the next removal of forgotten signals.
    forget_at_ms: Option<u64>,
    /// The definitions are not loaded again before this moment.
    definitions_at_ms: u64,
    /// The number of the last question for definitions.
    question: u64,
    /// Instances whose migrations wait for the definitions, with the first question that answers them: the store may have read the answer of an
    /// earlier one before the deployment.
    asked: BTreeMap<String, u64>,
}

impl Core {
    /// A worker without partitions. `partitions` are those of the store.
    pub fn new(settings: Settings, registry: Arc<Registry>, partitions: u16) -> Self {
        let scan_gap_ms = settings.poll_min_ms;
        Self {
            settings,
            partitions,
            registry,
            held: Held::default(),
            slots: BTreeMap::new(),
            generations: 0,
            touched: BTreeSet::new(),
            later: BTreeSet::new(),
            turn_steps: 0,
            alarms: BinaryHeap::new(),
            delayed: BTreeMap::new(),
            delayed_weight: 0,
            is_delayed_cut: false,
            scan_at_ms: 0,
            scan_gap_ms,
            is_scanning: false,
            is_more: false,
            gone: BTreeSet::new(),
            left: Left::default(),
            commits: 0,
            calls: 0,
            queue: VecDeque::new(),
            ready: VecDeque::new(),
            deferred: BTreeMap::new(),
            remove: Vec::new(),
            bury: Vec::new(),
            postpone: Vec::new(),
            jobs: Vec::new(),
            missing: BTreeSet::new(),
            load_at_ms: 0,
            backlog: 0,
            weight: 0,
            looks: 0,
            last_ms: 0,
            forget_at_ms: None,
            definitions_at_ms: 0,
            question: 0,
            asked: BTreeMap::new(),
        }
    }

    /// Applies a result or news, and returns the work that follows.
    pub fn handle(&mut self, happened: Happened, now_ms: u64) -> Vec<Job> {
        self.turn([happened], now_ms)
    }

    /// Applies results and news, and returns the work that follows from all of them.
    pub fn turn(&mut self, news: impl IntoIterator<Item = Happened>, now_ms: u64) -> Vec<Job> {
        let lost =
            if self.jumped_back(now_ms) { self.held.restart(now_ms) } else { self.held.expire(now_ms) };
        self.forget_partitions(&lost);
        news.into_iter().for_each(|happened| self.apply_news(happened, now_ms));
        self.pump(now_ms);
        take(&mut self.jobs)
    }

    fn apply_news(&mut self, happened: Happened, now_ms: u64) {
        match happened {
            Happened::Leased { asked_ms, result } => {
                let (lost, is_new) = self.held.answer(&self.settings, asked_ms, now_ms, result);
                self.forget_partitions(&lost);
                if is_new {
                    self.scan_soon(now_ms);
                }
                self.jobs.extend(self.held.is_beyond().then_some(Job::Holders));
            }
            Happened::Held(holders) => self.held.note_holders(&holders),
            Happened::Scanned { limit, result } => self.scanned(limit, result, now_ms),
            Happened::Loaded { tags, result } => self.loaded(tags, result, now_ms),
            Happened::Defined { question, result } => self.defined(question, result, now_ms),
            Happened::Committed { results } => self.committed(results, now_ms),
            Happened::Settled { keys, result } => self.settled(keys, &result, now_ms),
            Happened::Drained { done, records, signals } => {
                done.into_iter().for_each(|(tag, done)| self.drained(&tag, done, now_ms));
                self.announce(&records, &signals, now_ms);
                records.into_iter().for_each(|record| self.hint(Hint::Started(record), now_ms));
                signals.into_iter().for_each(|signal| self.hint(Hint::Published(signal), now_ms));
            }
            Happened::Called { instance, key, answer } => {
                self.calls = self.calls.saturating_sub(1);
                if let Some(slot) = self.slots.get_mut(&instance) {
                    slot.answered(&key, answer);
                    self.touched.insert(instance);
                }
            }
            Happened::Hint(hint) => self.hint(hint, now_ms),
            Happened::Tick => {}
        }
    }

    /// Takes over the definitions, and looks again at the migrations that wait for them.
    fn defined(&mut self, question: u64, result: Stored<Vec<Deployed>>, now_ms: u64) {
        let (answered, asked) = take(&mut self.asked).into_iter().partition(|(_, first)| *first <= question);
        self.asked = asked;
        if question == self.question && !self.asked.is_empty() {
            self.ask_definitions();
        }
        let Ok(definitions) = result else {
            let again_ms = now_ms.saturating_add(self.settings.poll_min_ms);
            return answered.keys().for_each(|id| self.alarm(Some(again_ms), id, now_ms));
        };
        self.registry.learn(&definitions);
        for id in answered.into_keys() {
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.has_asked = true;
                self.touched.insert(id);
            }
        }
    }

    /// Asks for the definitions.
    fn ask_definitions(&mut self) {
        self.question += 1;
        self.jobs.push(Job::Definitions(self.question));
    }

    /// The moment of the next `Tick`.
    pub fn wake_ms(&self) -> u64 {
        let alarm = self.alarms.peek().map(|Reverse((at_ms, _))| *at_ms);
        let delayed = self.delayed.keys().next().map(|(at_ms, _)| *at_ms);
        let scan = (!self.is_scanning && !self.held.is_empty()).then_some(self.scan_at_ms);
        let load = (!self.missing.is_empty()).then_some(self.load_at_ms);
        let later = (!self.later.is_empty()).then_some(self.last_ms);
        [alarm, delayed, scan, load, later].into_iter().flatten().fold(self.held.wake_ms(), u64::min)
    }

    /// The same, but never far away: a clock may jump.
    pub fn wake_soon_ms(&self, now_ms: u64) -> u64 {
        self.wake_ms().min(now_ms.saturating_add(WAKE_MAX_MS))
    }

    /// The weight of signals, and the number of instances with calls, that wait in memory.
    pub fn backlog(&self) -> usize {
        self.backlog + self.queue.len()
    }

    /// Instances looked at so far.
    pub const fn looks(&self) -> u64 {
        self.looks
    }

    /// The partitions that the worker holds.
    pub fn partitions(&self) -> Vec<u16> {
        self.held.partitions()
    }

    /// Whether the clock was set back. The times that the worker chose for its next scans are then far in the future, so they are set
    /// to now.
    fn jumped_back(&mut self, now_ms: u64) -> bool {
        let is_back = now_ms.saturating_add(CLOCK_BACK_MS) < self.last_ms;
        self.last_ms = now_ms;
        if is_back {
            self.scan_at_ms = now_ms;
            self.definitions_at_ms = now_ms;
            self.load_at_ms = now_ms;
            self.forget_at_ms = None;
        }
        is_back
    }

    // News

    fn hint(&mut self, hint: Hint, now_ms: u64) {
        match hint {
            Hint::Started(record) if self.owns(&record.id, now_ms) => {
                let is_newer = |slot: &Slot| slot.loaded.is_some();
                let is_late = self.left.is_older(&record.id, record.version);
                if !is_late && !self.slots.get(&record.id).is_some_and(is_newer) {
                    self.adopt(record, now_ms);
                }
            }
            Hint::Published(signal) if self.owns(&signal.instance, now_ms) => {
                self.receive(signal, now_ms);
                self.scan_at_ms = self.scan_at_ms.min(self.delayed_until_ms().unwrap_or(u64::MAX));
            }
            Hint::Work => self.scan_soon(now_ms),
            Hint::Partitions(partitions) => {
                if partitions.iter().any(|partition| self.held.epoch(*partition, now_ms).is_some()) {
                    self.scan_soon(now_ms);
                }
            }
            Hint::Started(_) | Hint::Published(_) => {}
        }
    }

    /// Tells the owners of other partitions about started instances and sent signals.
    fn announce(&mut self, records: &[Record], signals: &[Signal], now_ms: u64) {
        let started = records.iter().map(|record| record.partition);
        let sent = signals.iter().map(|signal| partition_of(&signal.instance, self.partitions));
        let others = started.chain(sent).filter(|partition| self.held.epoch(*partition, now_ms).is_none());
        let others: BTreeSet<_> = others.collect();
        if !others.is_empty() {
            self.jobs.push(Job::Announce(others.into_iter().collect()));
        }
    }

    fn owns(&self, instance: &str, now_ms: u64) -> bool {
        self.held.epoch(partition_of(instance, self.partitions), now_ms).is_some()
    }

    fn scan_soon(&mut self, now_ms: u64) {
        self.scan_at_ms = self.scan_at_ms.min(now_ms);
        self.scan_gap_ms = self.settings.poll_min_ms;
    }

    /// Takes a signal; returns whether it is in memory now.
    fn receive(&mut self, signal: Signal, now_ms: u64) -> bool {
        if signal.due_ms > now_ms {
            return signal.due_ms <= now_ms.saturating_add(self.settings.ahead_ms) && self.delay(signal);
        }
        let instance = signal.instance.clone();
        let slot = self.slot(&instance);
        let weight = signal.weight();
        let (added, is_missing) = (slot.add(signal), slot.loaded.is_none());
        self.backlog += if added { weight } else { 0 };
        if is_missing {
            self.missing.insert(instance.clone());
        }
        self.touched.insert(instance);
        true
    }

    /// Takes a signal of the near future, and drops the latest one if there are too many; returns whether the signal stays.
    fn delay(&mut self, signal: Signal) -> bool {
        let key = (signal.due_ms, SignalKey::of(&signal));
        self.delayed_weight += signal.weight();
        if let Some(before) = self.delayed.insert(key.clone(), signal) {
            self.delayed_weight -= before.weight();
        }
        while self.is_delayed_full()
            && self.delayed.len() > 1
            && let Some((_, latest)) = self.delayed.pop_last()
        {
            self.delayed_weight -= latest.weight();
            self.is_delayed_cut = true;
        }
        self.delayed.contains_key(&key)
    }

    fn is_delayed_full(&self) -> bool {
        self.delayed.len() > DELAYED_MAX || self.delayed_weight > self.settings.signals_max
    }

    /// The moment up to which the signals of the near future are in memory, if some did not fit.
    fn delayed_until_ms(&self) -> Option<u64> {
        self.delayed.keys().next_back().map(|(due_ms, _)| *due_ms).filter(|_| self.is_delayed_cut)
    }

    /// The slot of an instance.
    fn slot(&mut self, instance: &str) -> &mut Slot {
        let (partition, next) = (partition_of(instance, self.partitions), &mut self.generations);
        let weight = &mut self.weight;
        self.slots.entry(instance.to_owned()).or_insert_with(|| {
            *next += 1;
            let slot = Slot::new(*next, partition);
            *weight += slot.weight;
            slot
        })
    }

    /// Notes the bytes of an instance's state.
    fn weigh(&mut self, id: &str, bytes: usize) {
        let slot = self.slot(id);
        let before = std::mem::replace(&mut slot.weight, weight(bytes));
        let after = slot.weight;
        self.weight = self.weight.saturating_sub(before) + after;
    }

    /// Drops a slot.
    fn take(&mut self, instance: &str) -> Option<Slot> {
        let slot = self.slots.remove(instance)?;
        self.backlog = self.backlog.saturating_sub(slot.waiting);
        self.weight = self.weight.saturating_sub(slot.weight);
        Some(slot)
    }

    fn tagged(&mut self, tag: &Tag) -> Option<&mut Slot> {
        self.slots.get_mut(&tag.instance).filter(|slot| slot.generation == tag.generation)
    }

    // Results

    fn scanned(&mut self, limit: usize, result: Stored<Due>, now_ms: u64) {
        self.is_scanning = false;
        let gone = take(&mut self.gone);
        let Ok(due) = result else {
            self.scan_at_ms = self.scan_at_ms.min(now_ms.saturating_add(self.settings.poll_min_ms));
            return;
        };
        let is_full = due.signals.len() >= limit || due.records.len() >= limit;
        let mut is_new = false;
        for record in due.records {
            is_new |= self.found(record, now_ms);
        }
        for signal in due.signals {
            let known = self.slots.get(&signal.instance).is_some_and(|slot| slot.known.contains(&signal.id));
            let key = SignalKey::of(&signal);
            let is_old = known || gone.contains(&key) || self.delayed.contains_key(&(signal.due_ms, key));
            if !is_old && self.owns(&signal.instance, now_ms) {
                is_new |= self.receive(signal, now_ms);
            }
        }
        let doubled = self.scan_gap_ms.saturating_mul(2).min(self.settings.poll_max_ms);
        self.scan_gap_ms = if is_new { self.settings.poll_min_ms } else { doubled };
        self.is_more = is_full && is_new;
        // A hint may have asked for a scan while this one was under way.
        self.scan_at_ms = self.scan_at_ms.min(now_ms.saturating_add(self.scan_gap_ms));
        // The signals that did not fit follow these.
        self.scan_at_ms = self.scan_at_ms.min(self.delayed_until_ms().unwrap_or(u64::MAX));
    }

    /// Takes a record of a scan; returns whether the worker did not know it.
    fn found(&mut self, record: Record, now_ms: u64) -> bool {
        if !self.owns(&record.id, now_ms) || self.left.is_older(&record.id, record.version) {
            return false;
        }
        match self.slots.get(&record.id) {
            Some(slot) if slot.is_loading || slot.committing.is_some() => return false,
            Some(slot) if slot.loaded.is_none() => {}
            Some(slot) => {
                let known = slot.loaded.as_ref().map_or(0, |loaded| loaded.version);
                if known >= record.version {
                    self.alarm(record.due_ms, &record.id, now_ms);
                    self.touched.insert(record.id);
                    return false;
                }
                // Another worker changed the instance: the state in this slot is out of date.
                self.take(&record.id);
            }
            // A full memory would drop the instance at once, and the next scan would bring it again.
            None if self.is_full() && record.due_ms.is_none_or(|due_ms| due_ms > now_ms) => {
                self.scan_at_ms = self.scan_at_ms.min(record.due_ms.unwrap_or(u64::MAX));
                return false;
            }
            None => {}
        }
        self.adopt(record, now_ms);
        true
    }

    /// Takes a stored state into memory.
    fn adopt(&mut self, record: Record, now_ms: u64) {
        let program = self.registry.program(&record.definition.hash);
        let id = record.id.clone();
        let state = State::decode(&record.body).map_err(|error| error.to_string());
        match (program, state) {
            (Some(program), Ok(state)) => {
                let due_ms = state.due_ms();
                // The answer of the commit that ended it may have been lost.
                self.jobs.push(Job::Tell(Change::of(&state, record.version)));
                self.weigh(&id, record.body.len());
                let slot = self.slot(&id);
                slot.is_loading = false;
                slot.unconfirmed = state.applied.iter().cloned().collect();
                slot.loaded = Some(Loaded { program, state, version: record.version });
                if let Some(words) = slot.poison.take() {
                    slot.quarantine(words, now_ms);
                }
                self.alarm(due_ms, &id, now_ms);
                self.touched.insert(id);
            }
            (None, _) => {
                if now_ms >= self.definitions_at_ms {
                    self.definitions_at_ms = now_ms.saturating_add(UNREADABLE_MS);
                    self.ask_definitions();
                }
                let Version { name, hash } = &record.definition;
                let words = match self.registry.fault(hash) {
                    Some(reason) => format!("the definition {name} with hash {hash} is unusable: {reason}"),
                    None => format!("the definition {name} with hash {hash} is unknown: deploy it again"),
                };
                self.defer(record, words, now_ms);
            }
            (_, Err(words)) => self.defer(record, words, now_ms),
        }
    }

    /// Postpones an instance that this version cannot read, with its signals.
    fn defer(&mut self, record: Record, words: String, now_ms: u64) {
        let due_ms = now_ms.saturating_add(UNREADABLE_MS);
        let slot = self.take(&record.id);
        for signal in slot.into_iter().flat_map(|slot| slot.signals) {
            self.postpone.push(Postponed { key: SignalKey::of(&signal), due_ms, attempts: signal.attempts });
        }
        let Some(epoch) = self.held.epoch(record.partition, now_ms) else { return };
        if record.due_ms.is_none() && record.note.is_some() {
            return;
        }
        self.generations += 1;
        let tag = Tag { instance: record.id.clone(), generation: self.generations };
        let due_ms = record.due_ms.map(|_| due_ms);
        let record = Record { version: record.version + 1, epoch, due_ms, note: Some(words), ..record };
        self.deferred.insert(record.id.clone(), (tag, Commit::of(record)));
    }

    /// Begins the commits that postpone unreadable instances.
    fn postpone_unreadable(&mut self) {
        while self.commits < self.settings.commits_max && !self.deferred.is_empty() {
            let next = std::iter::from_fn(|| self.deferred.pop_first().map(|(_, change)| change));
            let commits = next.take(self.settings.batch).collect();
            self.commits += 1;
            self.jobs.push(Job::Commit(commits));
        }
    }

    fn loaded(&mut self, tags: Vec<Tag>, result: Stored<Vec<Option<Record>>>, now_ms: u64) {
        let Ok(records) = result else {
            // No scan finds an instance that has ended: only another load does.
            self.load_at_ms = now_ms.saturating_add(self.settings.poll_min_ms);
            tags.into_iter().for_each(|tag| self.load_again(tag));
            return;
        };
        for (tag, record) in tags.into_iter().zip(records) {
            let Some(slot) = self.tagged(&tag).filter(|slot| slot.loaded.is_none()) else { continue };
            slot.is_loading = false;
            match record {
                Some(record) => self.adopt(record, now_ms),
                None => self.unknown(&tag, now_ms),
            }
        }
    }

    fn load_again(&mut self, tag: Tag) {
        let Some(slot) = self.tagged(&tag) else { return };
        slot.is_loading = false;
        self.missing.insert(tag.instance);
    }

    /// Postpones or buries the signals of an instance that does not exist.
    fn unknown(&mut self, tag: &Tag, now_ms: u64) {
        let Some(slot) = self.take(&tag.instance) else { return };
        for signal in slot.signals {
            let attempts = signal.attempts + 1;
            if attempts >= self.settings.unknown_attempts_max {
                self.bury.push(DeadLetter { signal, reason: DeadReason::UnknownInstance, buried_ms: now_ms });
            } else {
                let due_ms = now_ms.saturating_add(UNKNOWN_MS << signal.attempts.min(16));
                self.postpone.push(Postponed { key: SignalKey::of(&signal), due_ms, attempts });
            }
        }
    }

    fn committed(&mut self, results: Vec<(Tag, Stored<Committed>)>, now_ms: u64) {
        self.commits = self.commits.saturating_sub(1);
        for (tag, result) in results {
            match result {
                Ok(Committed::Won) => self.won(&tag, now_ms),
                Ok(Committed::Lost) => self.lost(&tag, now_ms),
                Err(error) => self.uncertain(&tag, error, now_ms),
            }
        }
    }

    /// Begins an instance again from the store.
    fn lost(&mut self, tag: &Tag, scan_at_ms: u64) {
        self.forget(tag);
        self.scan_at_ms = self.scan_at_ms.min(scan_at_ms);
    }

    /// Loads an instance whose change may have taken effect. The instance may have ended, so that a scan
    /// would not find it. A refused change leads to a quarantine.
    ///
    /// A store that refuses writes may answer reads: each further attempt waits, and no call begins before a change has won.
    fn uncertain(&mut self, tag: &Tag, error: StoreError, now_ms: u64) {
        let is_hopeless = self.tagged(tag).is_none_or(|slot| slot.is_quarantined());
        let before_ms = self.tagged(tag).map_or(0, |slot| slot.pause_ms);
        let pause_ms = before_ms.saturating_mul(2).clamp(self.settings.poll_min_ms, PAUSE_MAX_MS);
        self.lost(tag, now_ms.saturating_add(self.settings.poll_min_ms));
        if let StoreError::Refused(reason) = error {
            // The next scan brings an instance whose quarantine is refused, too.
            if is_hopeless {
                return;
            }
            self.slot(&tag.instance).poison = Some(reason.to_string());
        } else {
            let slot = self.slot(&tag.instance);
            (slot.pause_ms, slot.paused_until_ms) = (pause_ms, now_ms.saturating_add(pause_ms));
        }
        self.missing.insert(tag.instance.clone());
    }

    fn won(&mut self, tag: &Tag, now_ms: u64) {
        let Some(slot) = self.tagged(tag) else { return };
        slot.pause_ms = 0;
        let consumed = slot.committing.take().unwrap_or_default();
        let refused = take(&mut slot.confirming);
        for id in &consumed {
            slot.known.remove(id);
        }
        let key = |id: &String| SignalKey { instance: tag.instance.clone(), id: id.clone() };
        let removed: Vec<_> = consumed.iter().map(key).collect();
        let Some(loaded) = &mut slot.loaded else { return };
        loaded.version += 1;
        let due_ms = loaded.state.due_ms();
        let change = Change::of(&loaded.state, loaded.version);
        let letter = |(signal, reason)| DeadLetter { signal, reason, buried_ms: now_ms };
        self.bury.extend(refused.into_iter().map(letter));
        if self.is_scanning {
            self.gone.extend(removed);
        }
        self.jobs.push(Job::Tell(change));
        self.alarm(due_ms, &tag.instance, now_ms);
        self.touched.insert(tag.instance.clone());
    }

    fn settled(&mut self, keys: Vec<SignalKey>, result: &Stored<()>, now_ms: u64) {
        for key in keys {
            // After a failure the signals may still be there: the instance begins again from the store.
            if result.is_err() {
                self.take(&key.instance);
                self.scan_at_ms = self.scan_at_ms.min(now_ms.saturating_add(self.settings.poll_min_ms));
                continue;
            }
            if self.is_scanning {
                self.gone.insert(key.clone());
            }
            if let Some(slot) = self.slots.get_mut(&key.instance) {
                slot.known.remove(&key.id);
                slot.unconfirmed.remove(&key.id);
                self.touched.insert(key.instance);
            }
        }
    }

    fn drained(&mut self, tag: &Tag, done: Stored<Vec<u64>>, now_ms: u64) {
        let (soon_ms, later_ms) =
            (now_ms.saturating_add(self.settings.poll_min_ms), now_ms.saturating_add(UNREADABLE_MS));
        let Some(slot) = self.tagged(tag) else { return };
        slot.is_draining = false;
        slot.drain_new_after = u64::MAX;
        match done {
            Ok(done) => {
                if slot.step(crate::step::Input::Drained { done }, now_ms).is_err() {
                    self.forget(tag);
                } else if let Some(left) = slot.left_behind() {
                    // The rest waits for a deployment.
                    (slot.drain_at_ms, slot.drain_new_after) = (later_ms, left);
                }
            }
            Err(StoreError::Unavailable(_)) => slot.drain_at_ms = soon_ms,
            Err(StoreError::Refused(words)) => {
                slot.drain_at_ms = later_ms;
                if !slot.is_quarantined() {
                    slot.quarantine(format!("an effect is refused: {words}"), now_ms);
                }
            }
        }
        let again_ms = self.tagged(tag).map(|slot| slot.drain_at_ms).filter(|at_ms| *at_ms > now_ms);
        self.alarm(again_ms, &tag.instance, now_ms);
        self.touched.insert(tag.instance.clone());
    }

    // Work

    fn pump(&mut self, now_ms: u64) {
        self.ask_for_partitions(now_ms);
        self.ring(now_ms);
        self.turn_steps = 0;
        let mut touched = take(&mut self.touched);
        let first = take(&mut self.later);
        for id in first.iter().chain(touched.difference(&first)) {
            self.work(id, now_ms);
        }
        touched.extend(first);
        self.serve(now_ms);
        self.commit(&touched, now_ms);
        self.postpone_unreadable();
        self.load(now_ms);
        self.drain(&touched, now_ms);
        self.settle();
        self.scan(now_ms);
        self.forget_signals(now_ms);
        self.evict(&touched);
    }

    /// Lets the store forget signals, now and then: scans wake the worker often enough.
    fn forget_signals(&mut self, now_ms: u64) {
        let at_ms = *self.forget_at_ms.get_or_insert(now_ms.saturating_add(FORGET_EVERY_MS));
        if now_ms < at_ms || self.held.is_empty() {
            return;
        }
        self.forget_at_ms = None;
        let before_ms = now_ms.saturating_sub(self.settings.recognised_ms);
        self.jobs.push(Job::Forget { partitions: self.held.partitions(), before_ms });
    }

    fn ask_for_partitions(&mut self, now_ms: u64) {
        let Some(request) = self.held.ask(&self.settings, self.partitions, now_ms) else { return };
        self.forget_partitions(&request.release);
        self.jobs.push(Job::Lease(request));
    }

    /// Looks at every instance and signal whose moment has come.
    fn ring(&mut self, now_ms: u64) {
        while self.alarms.peek().is_some_and(|Reverse((at_ms, _))| *at_ms <= now_ms) {
            let Some(Reverse((at_ms, id))) = self.alarms.pop() else { break };
            if let Some(slot) = self.slots.get_mut(&id).filter(|slot| slot.alarm_ms == Some(at_ms)) {
                slot.alarm_ms = None;
            }
            self.touched.insert(id);
        }
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now_ms) {
            let signal = first.remove();
            self.delayed_weight -= signal.weight();
            if self.owns(&signal.instance, now_ms) {
                self.receive(signal, now_ms);
            }
        }
    }

    /// Wakes the worker at an instance's moment. Later moments come with a scan, which looks ahead.
    fn alarm(&mut self, due_ms: Option<u64>, instance: &str, now_ms: u64) {
        let near_ms = now_ms.saturating_add(self.settings.ahead_ms);
        let Some(due_ms) = due_ms.filter(|due_ms| *due_ms <= near_ms) else { return };
        let Some(slot) = self.slots.get_mut(instance).filter(|slot| slot.alarm_ms != Some(due_ms)) else {
            return;
        };
        slot.alarm_ms = Some(due_ms);
        self.alarms.push(Reverse((due_ms, instance.to_owned())));
    }

    fn work(&mut self, id: &str, now_ms: u64) {
        let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.loaded.is_some()) else { return };
        if slot.is_paused(now_ms) {
            let until_ms = slot.paused_until_ms;
            return self.alarm(Some(until_ms), id, now_ms);
        }
        let steps_max = TURN_STEPS_MAX.saturating_sub(self.turn_steps);
        if steps_max == 0 {
            self.later.insert(id.to_owned());
            return;
        }
        self.looks += 1;
        let before = slot.waiting;
        let stepped = slot.work(&self.registry, now_ms, steps_max);
        self.turn_steps = self.turn_steps.saturating_add(stepped.spent);
        slot.has_asked &= !slot.signals.is_empty();
        if stepped.is_cut {
            self.later.insert(id.to_owned());
        }
        self.backlog = self.backlog.saturating_sub(before.saturating_sub(slot.waiting));
        slot.is_blocked = stepped.is_blocked;
        if slot.is_blocked {
            slot.hold_until_ms = None;
        }
        if stepped.must_ask {
            let first = self.question + 1;
            if self.asked.is_empty() {
                self.ask_definitions();
            }
            self.asked.entry(id.to_owned()).or_insert(first);
        }
        match self.apply(id, stepped, now_ms) {
            Some(words) => self.poison(id, words),
            None => self.queue_calls(id, now_ms),
        }
    }

    /// Queues the removals, burials and delays of signals that a step requests. Returns the message of a panic.
    fn apply(&mut self, id: &str, stepped: Stepped, now_ms: u64) -> Option<String> {
        let key = |id_of_signal| SignalKey { instance: id.to_owned(), id: id_of_signal };
        self.remove.extend(stepped.remove.into_iter().map(key));
        let letter = |(signal, reason)| DeadLetter { signal, reason, buried_ms: now_ms };
        self.bury.extend(stepped.bury.into_iter().map(letter));
        let due_ms = now_ms.saturating_add(UNREADABLE_MS);
        let later =
            |signal: Signal| Postponed { key: SignalKey::of(&signal), due_ms, attempts: signal.attempts };
        self.postpone.extend(stepped.postpone.into_iter().map(later));
        stepped.panic
    }

    /// Loads an instance again to put it in quarantine.
    fn poison(&mut self, id: &str, words: String) {
        self.take(id);
        self.slot(id).poison = Some(words);
        self.missing.insert(id.to_owned());
        self.touched.insert(id.to_owned());
    }

    /// Lets the calls of an instance wait for their turn.
    fn queue_calls(&mut self, id: &str, now_ms: u64) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.is_doubtful |= slot.must_prove(now_ms);
        if !slot.is_queued && slot.has_calls(now_ms) {
            slot.is_queued = true;
            self.queue.push_back(id.to_owned());
        }
    }

    /// Begins waiting calls, the first one first.
    fn serve(&mut self, now_ms: u64) {
        while self.calls < self.settings.calls_max {
            let Some(id) = self.queue.pop_front() else { return };
            self.begin_calls(id, now_ms);
        }
    }

    /// Begins as many calls of an instance as the limit allows. The others stay first in the queue.
    fn begin_calls(&mut self, id: String, now_ms: u64) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        let (due, free) = (slot.due_calls(now_ms), self.settings.calls_max - self.calls);
        slot.is_queued = due.len() > free;
        for call in due.into_iter().take(free) {
            self.calls += 1;
            slot.calls.insert((call.visit, call.attempt), call.key.clone());
            if slot.is_dirty && !slot.is_blocked && slot.hold_until_ms.is_none() {
                let until_ms = now_ms.saturating_add(self.settings.fuse_ms);
                slot.hold_until_ms = Some(until_ms);
                self.alarms.push(Reverse((until_ms, id.clone())));
            }
            self.jobs.push(Job::Call(call));
        }
        if slot.is_queued {
            self.queue.push_front(id);
        }
    }

    fn load(&mut self, now_ms: u64) {
        if now_ms < self.load_at_ms {
            return;
        }
        let mut tags = Vec::new();
        while tags.len() < self.settings.batch {
            let Some(instance) = self.missing.pop_first() else { break };
            let Some(slot) = self.slots.get_mut(&instance) else { continue };
            if slot.loaded.is_none() && !slot.is_loading {
                slot.is_loading = true;
                tags.push(Tag { generation: slot.generation, instance });
            }
        }
        if !tags.is_empty() {
            self.jobs.push(Job::Load(tags));
        }
    }

    /// Begins commits, the first ready instance first.
    fn commit(&mut self, touched: &BTreeSet<String>, now_ms: u64) {
        for id in touched {
            let Some(slot) = self.slots.get_mut(id) else { continue };
            if !slot.is_listed && slot.is_ready(now_ms) {
                slot.is_listed = true;
                self.ready.push_back(id.clone());
            }
        }
        while self.commits < self.settings.commits_max && !self.ready.is_empty() {
            self.commit_batch(now_ms);
        }
    }

    fn commit_batch(&mut self, now_ms: u64) {
        let mut commits = Vec::new();
        while commits.len() < self.settings.batch {
            let Some(id) = self.ready.pop_front() else { break };
            let Some(slot) = self.slots.get_mut(&id) else { continue };
            slot.is_listed = false;
            if !slot.is_ready(now_ms) {
                continue;
            }
            match self.change(&id, now_ms) {
                Ok(change) => commits.extend(change),
                Err(words) => self.poison(&id, words),
            }
        }
        if !commits.is_empty() {
            self.commits += 1;
            self.jobs.push(Job::Commit(commits));
        }
    }

    /// The commit of a slot, which is then in flight.
    fn change(&mut self, id: &str, now_ms: u64) -> Result<Option<(Tag, Commit)>, String> {
        let Some(slot) = self.slots.get_mut(id) else { return Ok(None) };
        let Some(epoch) = self.held.epoch(slot.partition, now_ms) else { return Ok(None) };
        let Some(loaded) = &slot.loaded else { return Ok(None) };
        let record = Record::of(&loaded.state, self.partitions, loaded.version + 1, epoch);
        let record = record.map_err(|error| error.to_string())?;
        self.weight = self.weight.saturating_sub(slot.weight);
        slot.weight = weight(record.body.len());
        self.weight += slot.weight;
        let (consumed, forgotten) = (take(&mut slot.consumed), take(&mut slot.forgotten));
        slot.committing = Some(consumed.clone());
        slot.confirming = take(&mut slot.refused);
        (slot.is_dirty, slot.is_doubtful, slot.has_result, slot.hold_until_ms) = (false, false, false, None);
        let tag = Tag { instance: id.to_owned(), generation: slot.generation };
        Ok(Some((tag, Commit { record, consumed, forgotten })))
    }

    /// Does the effects of stored states.
    fn drain(&mut self, touched: &BTreeSet<String>, now_ms: u64) {
        let mut batches = Vec::new();
        for id in touched {
            let Some(slot) = self.slots.get_mut(id) else { continue };
            let Some(loaded) = &slot.loaded else { continue };
            let is_stored = !slot.is_dirty && slot.committing.is_none();
            let is_time = slot.drain_at_ms <= now_ms || loaded.state.effects > slot.drain_new_after;
            let is_pending = !loaded.state.outbox.is_empty() && !slot.is_draining && is_time;
            if is_stored && is_pending {
                (slot.is_draining, slot.draining_upto) = (true, loaded.state.effects);
                let tag = Tag { instance: id.clone(), generation: slot.generation };
                batches.push((tag, loaded.state.outbox.iter().cloned().collect()));
            }
        }
        if !batches.is_empty() {
            self.jobs.push(Job::Drain(batches));
        }
    }

    fn settle(&mut self) {
        if !self.remove.is_empty() {
            self.jobs.push(Job::Remove(take(&mut self.remove)));
        }
        if !self.bury.is_empty() {
            self.jobs.push(Job::Bury(take(&mut self.bury)));
        }
        if !self.postpone.is_empty() {
            self.jobs.push(Job::Postpone(take(&mut self.postpone)));
        }
    }

    fn scan(&mut self, now_ms: u64) {
        let is_time = now_ms >= self.scan_at_ms || (self.is_more && self.has_room());
        if self.is_scanning || self.held.is_empty() || !is_time {
            return;
        }
        if self.backlog() > self.settings.signals_max {
            self.scan_at_ms = now_ms.saturating_add(self.settings.poll_min_ms);
            return;
        }
        (self.is_scanning, self.is_more) = (true, false);
        self.scan_at_ms = u64::MAX;
        let ahead_ms = now_ms.saturating_add(self.settings.ahead_ms);
        let until_ms = self.delayed_until_ms().map_or(ahead_ms, |until_ms| until_ms.clamp(now_ms, ahead_ms));
        self.is_delayed_cut &= !self.delayed.is_empty();
        // A scan also returns work that the worker knows: it must not hide other work.
        let is_due = |slot: &Slot| {
            let due_ms = slot.loaded.as_ref().and_then(|loaded| loaded.state.due_ms());
            due_ms.is_some_and(|due_ms| due_ms <= until_ms)
        };
        let known = self.slots.values().map(|slot| slot.known.len() + usize::from(is_due(slot)));
        let limit = self.settings.batch + self.delayed.len() + known.sum::<usize>();
        self.jobs.push(Job::Scan { partitions: self.held.partitions(), until_ms, limit });
    }

    /// Whether more work would begin soon. If not, it stays in the store until the next scan.
    fn has_room(&self) -> bool {
        self.queue.len() < self.settings.batch && !self.is_full()
    }

    // Memory

    fn is_full(&self) -> bool {
        self.weight >= self.settings.idle_max
    }

    /// Drops an instance from memory. The store has everything that was acknowledged.
    fn forget(&mut self, tag: &Tag) {
        if self.tagged(tag).is_some() {
            self.take(&tag.instance);
        }
    }

    fn forget_partitions(&mut self, partitions: &[u16]) {
        if partitions.is_empty() {
            return;
        }
        self.slots.retain(|_, slot| !partitions.contains(&slot.partition));
        self.queue.retain(|id| self.slots.contains_key(id));
        self.ready.retain(|id| self.slots.contains_key(id));
        self.backlog = self.slots.values().map(|slot| slot.waiting).sum();
        self.weight = self.slots.values().map(|slot| slot.weight).sum();
        let all = self.partitions;
        self.delayed.retain(|(_, key), _| !partitions.contains(&partition_of(&key.instance, all)));
        self.delayed_weight = self.delayed.values().map(Signal::weight).sum();
    }

    /// Drops instances that do nothing: ended ones at once, others above the limit.
    fn evict(&mut self, touched: &BTreeSet<String>) {
        let is_full = self.weight > self.settings.idle_max;
        for id in touched {
            let Some(slot) = self.slots.get(id).filter(|slot| slot.is_idle()) else { continue };
            let state = slot.loaded.as_ref().map(|loaded| &loaded.state);
            let is_over = state.is_none_or(|state| state.status.is_ended() && state.outbox.is_empty());
            // A due instance comes with the next scan.
            if is_over || is_full {
                let version = slot.loaded.as_ref().map_or(0, |loaded| loaded.version);
                self.left.add(id, version, self.is_scanning);
                self.take(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::Value;

    use super::*;
    use crate::definition::{ContinueWith, Definition, Repeat, Set, Step, Task};
    use crate::instance::{Body, StartRequest, Status};
    use crate::memory::{Memory, Removal};
    use crate::port::{Find, Inbox, Services, Store};
    use crate::step::{Call, CallError, start};
    use crate::worker::perform;

    struct Nothing;

    impl Services for Nothing {
        async fn call(&self, _: &Call) -> Result<Value, CallError> {
            Ok(Value::Null)
        }
    }

    /// A worker that does its jobs only when a test asks for it.
    struct Lab {
        core: Core,
        store: Memory,
        registry: Arc<Registry>,
        jobs: Vec<Job>,
        now_ms: u64,
        /// Scans, and the instances that they returned.
        scans: usize,
        rows: usize,
        /// Signals that scans returned.
        signals: usize,
        ended: usize,
    }

    impl Lab {
        fn new(settings: Settings, definition: &Definition) -> Self {
            let registry = Arc::new(Registry::default());
            registry.add(definition).unwrap();
            let store = Memory::new(1, Removal::WithCommit);
            let core = Core::new(settings, registry.clone(), 1);
            let mut lab = Self {
                core,
                store,
                registry,
                jobs: Vec::new(),
                now_ms: 1_000,
                scans: 0,
                rows: 0,
                signals: 0,
                ended: 0,
            };
            lab.tell(Happened::Tick);
            lab.perform_all();
            lab
        }

        fn tell(&mut self, happened: Happened) {
            self.jobs.extend(self.core.handle(happened, self.now_ms));
        }

        fn perform(&mut self, job: Job) {
            self.store.set_clock(self.now_ms);
            self.ended += usize::from(matches!(job, Job::Tell(Change { end: Some(_), .. })));
            let done = perform(&self.store, &Nothing, &self.registry, job, self.now_ms).now_or_never();
            let done = done.unwrap();
            if let Happened::Scanned { result: Ok(due), .. } = &done {
                self.scans += 1;
                self.rows += due.records.len();
                self.signals += due.signals.len();
            }
            self.tell(done);
        }

        fn perform_all(&mut self) {
            while !self.jobs.is_empty() {
                let job = self.jobs.remove(0);
                self.perform(job);
            }
        }

        /// Does all jobs but calls.
        fn settle(&mut self) {
            while let Some(at) = self.jobs.iter().position(|job| !matches!(job, Job::Call(_))) {
                let job = self.jobs.remove(at);
                self.perform(job);
            }
        }

        /// The instances of calls that have begun.
        fn callers(&self) -> Vec<&str> {
            let caller = |job: &'_ Job| matches!(job, Job::Call(_));
            let calls = self.jobs.iter().filter(|job| caller(job));
            calls
                .filter_map(|job| if let Job::Call(call) = job { Some(call.instance.as_str()) } else { None })
                .collect()
        }

        /// Takes the first job of a kind.
        fn take(&mut self, is_it: impl Fn(&Job) -> bool) -> Job {
            let at = self.jobs.iter().position(is_it).unwrap();
            self.jobs.remove(at)
        }

        fn start(&mut self, id: &str) -> Record {
            let program = self.registry.latest("a").unwrap();
            let (id, definition) = (id.to_owned(), "a".to_owned());
            let request =
                StartRequest { id, definition, key: None, parent: None, depth: 0, input: Value::Null };
            let state = start(&program, request, self.now_ms).unwrap();
            let record = Record::of(&state, 1, 1, 0).unwrap();
            self.store.start(std::slice::from_ref(&record)).now_or_never().unwrap().unwrap();
            record
        }

        fn publish(&self, to: &str, id: &str) -> Happened {
            let signal = Signal::named(to, id, "go", Value::Null, 0);
            self.store.publish(std::slice::from_ref(&signal)).now_or_never().unwrap().unwrap();
            Happened::Hint(Hint::Published(signal))
        }
    }

    fn unavailable() -> StoreError {
        StoreError::Unavailable("lost".into())
    }

    #[test]
    fn an_end_is_told_although_the_answer_of_its_commit_and_the_next_load_are_lost() {
        let mut lab = Lab::new(Settings::new("one"), &Definition::new("a").wait("go"));
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.tell(lab.publish("i", "s"));
        let Job::Commit(commits) = lab.take(|job| matches!(job, Job::Commit(_))) else { panic!() };
        let (tags, commits): (Vec<_>, Vec<_>) = commits.into_iter().unzip();
        lab.store.commit(&commits).now_or_never().unwrap().unwrap();
        let results = tags.into_iter().map(|tag| (tag, Err(unavailable()))).collect();
        lab.tell(Happened::Committed { results });
        let Job::Load(tags) = lab.take(|job| matches!(job, Job::Load(_))) else { panic!() };
        lab.tell(Happened::Loaded { tags, result: Err(unavailable()) });
        lab.now_ms = lab.core.wake_ms();
        lab.tell(Happened::Tick);
        let load = lab.take(|job| matches!(job, Job::Load(_)));
        lab.perform(load);
        assert!(
            lab.jobs.iter().any(
                |job| matches!(job, Job::Tell(change) if change.instance == "i" && change.end.is_some())
            )
        );
    }

    #[test]
    fn limits_of_memory_count_bytes_and_not_only_items() {
        let mut lab =
            Lab::new(Settings { idle_max: 100, ..Settings::new("one") }, &Definition::new("a").wait("go"));
        let large = |id: &str| Signal::named("i", id, "other", Value::from("x".repeat(400 << 10)), 0);
        lab.tell(Happened::Hint(Hint::Published(large("1"))));
        assert!((100..=102).contains(&lab.core.backlog()), "{}", lab.core.backlog());
        lab.jobs.clear();
        let record = lab.start("i");
        lab.store.publish(&[large("1")]).now_or_never().unwrap().unwrap();
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.perform_all();
        // The instance keeps the signal, and is too large to stay in memory.
        assert_eq!((lab.core.backlog(), lab.core.slots.len(), lab.core.weight), (0, 0, 0));
        for number in 0..50 {
            let record = lab.start(&format!("small{number}"));
            lab.tell(Happened::Hint(Hint::Started(record)));
        }
        assert_eq!((lab.core.slots.len(), lab.core.weight), (50, 50));
    }

    #[test]
    fn calls_above_the_limit_begin_in_order_and_count_as_backlog() {
        let settings = Settings { calls_max: 1, ..Settings::new("one") };
        let mut lab = Lab::new(settings, &Definition::new("a").service("f").service("g"));
        for id in ["z", "y", "a"] {
            let record = lab.start(id);
            lab.tell(Happened::Hint(Hint::Started(record)));
        }
        lab.settle();
        assert_eq!((lab.callers(), lab.core.backlog()), (vec!["z"], 2));
        let mut order = Vec::new();
        while let Some(at) = lab.jobs.iter().position(|job| matches!(job, Job::Call(_))) {
            let Job::Call(call) = &lab.jobs[at] else { panic!() };
            order.push(call.instance.clone());
            let job = lab.jobs.remove(at);
            lab.perform(job);
            lab.settle();
        }
        assert_eq!(order, ["z", "y", "a", "z", "y", "a"]);
        assert_eq!(lab.core.backlog(), 0);
    }

    /// Completes the calls of instances that are all due at first. Returns scans, instances of scans and looks of the worker.
    fn complete(count: usize) -> [usize; 3] {
        let settings = Settings { calls_max: 64, batch: 128, ..Settings::new("one") };
        let mut lab = Lab::new(settings, &Definition::new("a").service("f"));
        (0..count).for_each(|number| drop(lab.start(&format!("i{number}"))));
        (lab.scans, lab.rows) = (0, 0);
        let looks = lab.core.looks();
        lab.tell(Happened::Hint(Hint::Work));
        while lab.ended < count {
            lab.settle();
            let calls: Vec<_> = lab.jobs.drain(..).collect();
            assert!(calls.len() <= 64);
            lab.now_ms += 10;
            calls.into_iter().for_each(|call| lab.perform(call));
            lab.tell(Happened::Tick);
        }
        [lab.scans, lab.rows, usize::try_from(lab.core.looks() - looks).unwrap()]
    }

    #[test]
    fn the_work_for_a_call_does_not_grow_with_the_number_of_waiting_calls() {
        let [_, _, looks] = complete(10);
        assert!(looks <= 50, "{looks} looks for 10 calls");
        let [scans, rows, looks] = complete(10_000);
        assert!(scans <= 10_000 / 64, "{scans} scans");
        assert!(rows <= 50_000, "{rows} rows for 10,000 calls");
        assert!(looks <= 50_000, "{looks} looks for 10,000 calls");
    }

    #[test]
    fn timers_that_do_not_fit_into_memory_stay_in_the_store_without_further_scans() {
        let settings = Settings { idle_max: 10, batch: 8, ..Settings::new("one") };
        let definition = Definition::new("a").timer_after_ms(5_000);
        let mut lab = Lab::new(settings, &definition);
        (0..50).for_each(|number| drop(lab.start(&format!("i{number}"))));
        lab.tell(Happened::Hint(Hint::Work));
        lab.perform_all();
        lab.scans = 0;
        let end_ms = lab.now_ms + 4_000;
        while lab.core.wake_ms() < end_ms {
            lab.now_ms = lab.core.wake_ms();
            lab.tell(Happened::Tick);
            lab.perform_all();
        }
        assert!(lab.scans <= 8, "{} scans", lab.scans);
        while lab.ended < 50 {
            lab.now_ms = lab.core.wake_ms().max(lab.now_ms);
            lab.tell(Happened::Tick);
            lab.perform_all();
        }
        assert!(lab.now_ms <= end_ms + 3_000, "{}", lab.now_ms);
    }

    /// Answers commits with a failure, and does all other jobs; returns the number of loads and calls.
    fn refuse_writes(lab: &mut Lab) -> (usize, usize) {
        let (mut loads, mut calls) = (0, 0);
        for _ in 0..1_000 {
            if lab.jobs.is_empty() {
                return (loads, calls);
            }
            match lab.jobs.remove(0) {
                Job::Commit(commits) => {
                    let results = commits.into_iter().map(|(tag, _)| (tag, Err(unavailable()))).collect();
                    lab.tell(Happened::Committed { results });
                }
                job => {
                    loads += usize::from(matches!(job, Job::Load(_)));
                    calls += usize::from(matches!(job, Job::Call(_)));
                    lab.perform(job);
                }
            }
        }
        panic!("the worker never pauses");
    }

    #[test]
    fn a_store_that_refuses_writes_makes_the_worker_pause_and_repeats_no_call() {
        let mut lab = Lab::new(Settings::new("one"), &Definition::new("a").service("f"));
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        assert_eq!(refuse_writes(&mut lab), (1, 1));
        for pause_ms in [250, 500, 1_000] {
            let before_ms = lab.now_ms;
            while lab.now_ms < before_ms + pause_ms {
                lab.now_ms = lab.core.wake_ms().max(lab.now_ms + 1);
                lab.tell(Happened::Tick);
                let (loads, calls) = refuse_writes(&mut lab);
                assert!(loads <= 1 && calls == 0, "{loads} loads and {calls} calls at {}", lab.now_ms);
            }
        }
        // The store works again.
        while lab.ended == 0 {
            lab.now_ms = lab.core.wake_ms().max(lab.now_ms + 1);
            lab.tell(Happened::Tick);
            lab.perform_all();
        }
        assert!(lab.now_ms < 20_000, "{}", lab.now_ms);
    }

    #[test]
    fn a_call_whose_input_names_the_moment_has_one_key() {
        let call = crate::definition::Service {
            function: "f".into(),
            input: Some("{at: $now}".into()),
            ..crate::definition::Service::default()
        };
        let mut definition = Definition::new("a").wait("go");
        definition.steps.push(Step::Service(call));
        let mut lab = Lab::new(Settings::new("one"), &definition);
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.settle();
        lab.tell(lab.publish("i", "s"));
        // Nothing is stored yet.
        assert_eq!(lab.callers(), Vec::<&str>::new());
        let Job::Commit(commits) = lab.take(|job| matches!(job, Job::Commit(_))) else { panic!() };
        let results = commits.into_iter().map(|(tag, _)| (tag, Err(unavailable()))).collect();
        lab.tell(Happened::Committed { results });
        while lab.callers().is_empty() {
            lab.now_ms = lab.core.wake_ms().max(lab.now_ms + 1);
            lab.tell(Happened::Tick);
            lab.settle();
        }
        assert_eq!(lab.callers(), ["i"]);
    }

    #[test]
    fn instances_of_an_unknown_definition_are_postponed_in_batches() {
        let settings = Settings { batch: 100, ..Settings::new("one") };
        let mut lab = Lab::new(settings, &Definition::new("a").timer_after_ms(1));
        let unknown = Version { name: "b".into(), hash: "h".into() };
        for number in 0..1_000 {
            let record = lab.start(&format!("i{number}"));
            let record = Record { definition: unknown.clone(), ..record };
            lab.tell(Happened::Hint(Hint::Started(record)));
        }
        let mut commits = 0;
        while !lab.jobs.is_empty() {
            let job = lab.jobs.remove(0);
            commits += usize::from(matches!(job, Job::Commit(_)));
            lab.perform(job);
        }
        assert!(commits <= 20, "{commits} commits");
    }

    #[test]
    fn a_start_that_is_impossible_holds_up_no_other_effect() {
        let next = ContinueWith { definition: "nowhere".into(), ..ContinueWith::default() };
        let steps = vec![Step::ContinueWith(next), Step::Task(Task::default())];
        let mut lab = Lab::new(Settings::new("one"), &Definition { steps, ..Definition::new("a") });
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.perform_all();
        let inbox = Inbox { limit: 10, ..Inbox::default() };
        assert_eq!(lab.store.tasks(&inbox).now_or_never().unwrap().unwrap().len(), 1);
        let explained = crate::explain::of(&lab.store, None, "i").now_or_never().unwrap().unwrap().unwrap();
        assert_eq!(explained.reasons[0].missing.as_deref(), Some("nowhere"));
        lab.store
            .deploy(&[Definition::new("nowhere").wait("go")], lab.now_ms)
            .now_or_never()
            .unwrap()
            .unwrap();
        lab.now_ms += UNREADABLE_MS;
        lab.tell(Happened::Tick);
        lab.perform_all();
        let started = Find { definition: Some("nowhere".into()), limit: 10, ..Find::default() };
        assert_eq!(lab.store.find(&started).now_or_never().unwrap().unwrap().len(), 1);
    }

    #[test]
    fn a_long_repetition_does_its_effects_before_they_fill_its_state() {
        let next = Step::ContinueWith(ContinueWith { definition: "b".into(), ..ContinueWith::default() });
        let data = Step::Set(Set { value: "{x: (\"x\" * 20000)}".into(), ..Set::default() });
        let many = Step::Repeat(Repeat { max: Some(600), steps: vec![next], ..Repeat::default() });
        let definition = Definition { steps: vec![data, many], ..Definition::new("a") };
        let mut lab = Lab::new(Settings::new("one"), &definition);
        lab.registry.add(&Definition::new("b").wait("go")).unwrap();
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.perform_all();
        let stored = lab.store.load(&["i".to_owned()]).now_or_never().unwrap().unwrap();
        assert_eq!(stored[0].as_ref().unwrap().status, Status::Done);
        let started = Find { definition: Some("b".into()), limit: 1_000, ..Find::default() };
        assert_eq!(lab.store.find(&started).now_or_never().unwrap().unwrap().len(), 600);
    }

    #[test]
    fn expensive_programs_of_many_instances_share_a_turn_and_all_of_them_run() {
        let value = "{n: ([range(40000)] | length)}".to_owned();
        let mut definition = Definition::new("a").wait("go");
        definition.steps.push(Step::Set(Set { value, ..Set::default() }));
        let mut lab = Lab::new(Settings::new("one"), &definition.wait("never"));
        let ids: Vec<_> = (0..200).map(|number| format!("i{number}")).collect();
        for id in &ids {
            let record = lab.start(id);
            lab.tell(Happened::Hint(Hint::Started(record)));
        }
        lab.perform_all();
        let news: Vec<_> = ids.iter().map(|id| lab.publish(id, "s")).collect();
        let jobs = lab.core.turn(news, lab.now_ms);
        let changes = |job: &Job| if let Job::Commit(commits) = job { commits.len() } else { 0 };
        let changed: usize = jobs.iter().map(changes).sum();
        assert!((1..150).contains(&changed), "{changed} instances moved in one turn");
        lab.jobs.extend(jobs);
        while lab.core.wake_ms() <= lab.now_ms {
            lab.tell(Happened::Tick);
            lab.perform_all();
        }
        let stored = lab.store.load(&ids).now_or_never().unwrap().unwrap();
        let is_moved = |record: &Record| State::decode(&record.body).unwrap().data["n"] == 40_000;
        assert_eq!(stored.iter().flatten().filter(|record| is_moved(record)).count(), 200);
    }

    #[test]
    fn a_migration_to_a_version_of_another_process_waits_for_the_definitions() {
        let mut lab = Lab::new(Settings::new("one"), &Definition::new("a").wait("go"));
        let mut to = Definition::new("a").wait("go").wait("more");
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.perform_all();
        let migrate = |lab: &mut Lab, id: &str, to: &Definition| {
            let signal = Signal::new("i", id, Body::Migrate { to: to.version() }, 0);
            lab.store.publish(std::slice::from_ref(&signal)).now_or_never().unwrap().unwrap();
            lab.tell(Happened::Hint(Hint::Published(signal)));
        };
        // Another process deploys the version; its news is lost.
        lab.store.deploy(std::slice::from_ref(&to), 0).now_or_never().unwrap().unwrap();
        migrate(&mut lab, "1", &to);
        // A list that the store read before the deployment does not answer.
        lab.tell(Happened::Defined { question: 0, result: Ok(Vec::new()) });
        let Job::Definitions(question) = lab.take(|job| matches!(job, Job::Definitions(_))) else { panic!() };
        lab.tell(Happened::Defined { question, result: Err(unavailable()) });
        while lab.jobs.is_empty() {
            lab.now_ms = lab.core.wake_ms().max(lab.now_ms + 1);
            lab.tell(Happened::Tick);
        }
        lab.perform_all();
        let stored = lab.store.load(&["i".to_owned()]).now_or_never().unwrap().unwrap();
        assert_eq!(stored[0].as_ref().unwrap().definition, to.version());
        // No process has deployed this one.
        to.steps.clear();
        migrate(&mut lab, "2", &to);
        lab.perform_all();
        let letters = lab.store.dead(None, 10).now_or_never().unwrap().unwrap();
        assert_eq!(letters.iter().map(|letter| letter.reason).collect::<Vec<_>>(), [DeadReason::Refused]);
    }

    #[test]
    fn a_migration_to_a_version_of_a_later_program_waits_for_a_process_that_can_use_it() {
        let mut lab = Lab::new(Settings::new("old"), &Definition::new("a").wait("go"));
        let to = Definition::new("a").wait("go").wait("more");
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.perform_all();
        lab.store.deploy_unreadable(to.version());
        let signal = Signal::new("i", "1", Body::Migrate { to: to.version() }, 0);
        lab.store.publish(std::slice::from_ref(&signal)).now_or_never().unwrap().unwrap();
        lab.tell(Happened::Hint(Hint::Published(signal)));
        lab.perform_all();
        let waiting = lab.store.signals(None, 10).now_or_never().unwrap().unwrap();
        assert_eq!(
            waiting.iter().map(|signal| signal.due_ms).collect::<Vec<_>>(),
            [lab.now_ms + UNREADABLE_MS]
        );
        assert_eq!(lab.store.dead(None, 10).now_or_never().unwrap().unwrap(), []);
        let missing = |lab: &Lab| {
            let explained = crate::explain::of(&lab.store, None, "i").now_or_never().unwrap().unwrap();
            let missing = explained.unwrap().reasons.into_iter().filter_map(|reason| reason.missing);
            missing.filter(|missing| missing.contains("can use")).collect::<Vec<_>>()
        };
        assert_eq!(missing(&lab), [format!("a worker that can use the version {}", to.version().hash)]);
        // The process is upgraded.
        lab.registry.add(&to).unwrap();
        let is_moved = |lab: &Lab| {
            let stored = lab.store.load(&["i".to_owned()]).now_or_never().unwrap().unwrap();
            stored[0].as_ref().unwrap().definition == to.version()
        };
        for _ in 0..1_000 {
            lab.now_ms = lab.core.wake_ms().max(lab.now_ms + 1);
            lab.tell(Happened::Tick);
            lab.perform_all();
            if is_moved(&lab) {
                assert_eq!(missing(&lab), [""; 0]);
                return;
            }
        }
        panic!("the migration is lost");
    }

    #[test]
    fn a_migration_to_an_unusable_version_of_another_definition_is_refused_at_once() {
        let mut lab = Lab::new(Settings::new("old"), &Definition::new("a").wait("go"));
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.perform_all();
        let other = Definition::new("b").wait("go").version();
        lab.store.deploy_unreadable(other.clone());
        let signal = Signal::new("i", "1", Body::Migrate { to: other }, 0);
        lab.store.publish(std::slice::from_ref(&signal)).now_or_never().unwrap().unwrap();
        lab.tell(Happened::Hint(Hint::Published(signal)));
        lab.perform_all();
        let letters = lab.store.dead(None, 10).now_or_never().unwrap().unwrap();
        assert_eq!(letters.iter().map(|letter| letter.reason).collect::<Vec<_>>(), [DeadReason::Refused]);
    }

    #[test]
    fn delayed_signals_are_read_a_few_times_and_applied_at_their_moment() {
        let count = Set { value: "{n: ((.n // 0) + 1)}".into(), ..Set::default() };
        let steps = Definition::new("a").wait("go").then(Step::Set(count)).steps;
        let definition = Definition::new("a").then(Step::Repeat(Repeat { steps, ..Repeat::default() }));
        let mut lab = Lab::new(Settings::new("one"), &definition);
        let record = lab.start("i");
        lab.tell(Happened::Hint(Hint::Started(record)));
        lab.perform_all();
        let signal = |number: u64| {
            let signal = Signal::named("i", format!("s{number}"), "go", Value::Null, 0);
            Signal { due_ms: 4_000 + number / 5, ..signal }
        };
        let signals: Vec<_> = (0..10_000).map(signal).collect();
        lab.store.publish(&signals).now_or_never().unwrap().unwrap();
        lab.tell(Happened::Hint(Hint::Work));
        lab.perform_all();
        let n = |lab: &Lab| {
            let stored = lab.store.load(&["i".to_owned()]).now_or_never().unwrap().unwrap();
            State::decode(&stored[0].as_ref().unwrap().body).unwrap().data["n"].as_u64().unwrap_or(0)
        };
        while n(&lab) < 10_000 {
            assert!(lab.core.delayed.len() <= DELAYED_MAX);
            lab.now_ms = lab.core.wake_ms().max(lab.now_ms + 1);
            lab.tell(Happened::Tick);
            lab.perform_all();
            let due = (lab.now_ms + 1).saturating_sub(4_000) * 5;
            assert!(n(&lab) <= due, "{} signals at {}", n(&lab), lab.now_ms);
        }
        assert!(lab.now_ms < 7_000, "{}", lab.now_ms);
        assert!(lab.signals <= 50_000, "{} signals were read", lab.signals);
    }

    #[test]
    fn a_refused_change_puts_its_instance_in_quarantine_and_blocks_no_other() {
        let mut lab = Lab::new(Settings::new("one"), &Definition::new("a").wait("go"));
        let records: Vec<_> = ["good", "bad", "other"].map(|id| lab.start(id)).into();
        records.into_iter().for_each(|record| lab.tell(Happened::Hint(Hint::Started(record))));
        let news = [("good", "s"), ("bad", "forbidden"), ("other", "s")].map(|(to, id)| lab.publish(to, id));
        lab.store.refuse("forbidden");
        let jobs = lab.core.turn(news, lab.now_ms);
        lab.jobs.extend(jobs);
        lab.perform_all();
        let ids = ["good", "bad", "other"].map(str::to_owned);
        let stored = lab.store.load(&ids).now_or_never().unwrap().unwrap();
        let statuses: Vec<_> = stored.iter().flatten().map(|record| record.status.name()).collect();
        assert_eq!(statuses, ["done", "quarantined", "done"]);
    }
}
