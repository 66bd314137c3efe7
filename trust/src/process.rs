//! What a process trusts: its keys, its identity, and its wish for encryption: all that a handshake needs.
//!
//! Invariant: each try of a handshake sees one set of keys, even if they are exchanged meanwhile.

use crate::file::{FileError, KeyFile};
use crate::greeting::Encrypt;
use crate::identity::Identity;
use crate::key::{Key, KeyId};
use crate::ring::Ring;
use base::settings;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How often the key file is looked at again because somebody has come.
const AGAIN: Duration = Duration::from_secs(1);
/// So many keys of groups are kept before it is asked which are still needed; then twice as many as were.
const MOST_PASSES: usize = 64;
/// First proofs that are remembered.
const MOST_PROOFS: usize = 16_384;

/// What this process trusts, and what it proves.
pub struct Trust {
    identity: Identity,
    encrypt: Encrypt,
    keys: Mutex<Keys>,
    passes: Mutex<Passes>,
    proofs: Mutex<Proofs>,
}

/// The first proofs that were right, so that none is answered twice. Nobody adds to them without a key.
#[derive(Default)]
struct Proofs {
    known: HashSet<[u8; EPHEMERAL]>,
    order: VecDeque<[u8; EPHEMERAL]>,
}

/// Bytes of the ephemeral key that a first proof begins with.
pub(crate) const EPHEMERAL: usize = 32;

/// Keys that are each good for one group alone. What other jobs say of their groups never changes what is accepted for ours.
#[derive(Default)]
struct Passes {
    /// Those that are accepted, by identifier, with the group of ours that each is good for, and the identifiers by group.
    keys: HashMap<KeyId, (Key, u64)>,
    groups: HashMap<u64, KeyId>,
    /// Those that other jobs' groups are dialled with.
    dials: HashMap<u64, Key>,
    /// So many are kept before it is asked which of them are still needed.
    most: usize,
}

impl Passes {
    /// Drops those of groups that are not needed any more, if there are many.
    fn tidy(&mut self, is_needed: impl Fn(u64) -> bool) {
        let count = |passes: &Passes| passes.groups.len() + passes.dials.len();
        if count(self) >= self.most.max(MOST_PASSES) {
            self.groups.retain(|group, _| is_needed(*group));
            self.keys.retain(|_, (_, group)| is_needed(*group));
            self.dials.retain(|group, _| is_needed(*group));
            self.most = 2 * count(self);
        }
    }
}

struct Keys {
    ring: Arc<Ring>,
    /// Where they come from, and when it was looked there last.
    file: Option<(KeyFile, Instant)>,
}

static OF_PROCESS: OnceLock<Arc<Trust>> = OnceLock::new();

impl Trust {
    /// What this process trusts, as its environment says: one identity for all of its connections. The first call makes it; if
    /// that fails, the next call tries again.
    pub fn of_process() -> Result<Arc<Trust>, FileError> {
        static MAKE: Mutex<()> = Mutex::new(());
        let _alone = MAKE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trust) = OF_PROCESS.get() {
            return Ok(trust.clone());
        }
        let file = KeyFile::find(std::env::var(settings::KEY).ok().as_deref())?;
        let trust = Arc::new(Trust::from_file(file, Encrypt::from_env()?)?);
        Ok(OF_PROCESS.get_or_init(|| trust).clone())
    }

    /// Trusts whoever holds one of these keys.
    pub fn new(ring: Ring, encrypt: Encrypt) -> Trust {
        let keys = Mutex::new(Keys { ring: Arc::new(ring), file: None });
        Trust { identity: Identity::new(), encrypt, keys, passes: Mutex::default(), proofs: Mutex::default() }
    }

    /// Trusts whoever holds a key of this file, which is made if it is not there.
    pub fn from_file(file: KeyFile, encrypt: Encrypt) -> Result<Trust, FileError> {
        let ring = Arc::new(file.read_or_make()?);
        let keys = Mutex::new(Keys { ring, file: Some((file, Instant::now())) });
        Ok(Trust { identity: Identity::new(), encrypt, keys, passes: Mutex::default(), proofs: Mutex::default() })
    }

    /// With this identity instead of a new one.
    pub fn with_identity(self, identity: Identity) -> Trust {
        Trust { identity, ..self }
    }

    /// From now on, this group of ours is reached by a key that is made of its cookie, which is secret: that key is accepted for it,
    /// and for nothing else. `is_needed` says of a group whether it is still known.
    pub fn pass(&self, incarnation: u64, cookie: &[u8; 16], is_needed: impl Fn(u64) -> bool) {
        let key = Key::derived("mpi-connect pass", cookie);
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.tidy(is_needed);
        let id = key.id();
        if let Some(before) = passes.groups.insert(incarnation, id) {
            passes.keys.remove(&before);
        }
        passes.keys.insert(id, (key, incarnation));
    }

    /// From now on, this group of another job is dialled with the key that is made of its cookie. Of two that claim to be the same
    /// group, the one that came first is dialled so, as long as it is needed.
    pub fn pass_to(&self, incarnation: u64, cookie: &[u8; 16], is_needed: impl Fn(u64) -> bool) {
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.tidy(&is_needed);
        if !passes.dials.contains_key(&incarnation) || !is_needed(incarnation) {
            passes.dials.insert(incarnation, Key::derived("mpi-connect pass", cookie));
        }
    }

    /// Whether this group of ours is reached by a key of its own.
    pub fn has_pass(&self, incarnation: u64) -> bool {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).groups.contains_key(&incarnation)
    }

    /// Whether who has proved this key may connect to the group with this incarnation: with the user's key to any, with that of
    /// one group to that alone.
    pub fn allows(&self, key: KeyId, incarnation: u64) -> bool {
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        match passes.keys.get(&key) {
            Some((_, good_for)) => *good_for == incarnation,
            None => {
                drop(passes);
                self.ring().find(key).is_some()
            }
        }
    }

    /// The number of groups that have a key of their own.
    #[cfg(test)]
    pub(crate) fn passes(&self) -> usize {
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.keys.len() + passes.dials.len()
    }

    /// The key to dial this group with.
    pub(crate) fn key_for(&self, incarnation: Option<u64>) -> Option<Key> {
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.dials.get(&incarnation?).cloned()
    }

    /// The key with this identifier, if it is that of one group.
    pub(crate) fn pass_with(&self, id: KeyId) -> Option<Key> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner).keys.get(&id).map(|(key, _)| key.clone())
    }

    /// Whether a first proof with this ephemeral key was answered before, so that this one was recorded.
    pub(crate) fn has_answered(&self, ephemeral: &[u8; EPHEMERAL]) -> bool {
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner).known.contains(ephemeral)
    }

    /// A first proof with this ephemeral key was right, and is answered.
    pub(crate) fn answers(&self, ephemeral: [u8; EPHEMERAL]) {
        let mut proofs = self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        if proofs.order.len() == MOST_PROOFS
            && let Some(oldest) = proofs.order.pop_front()
        {
            proofs.known.remove(&oldest);
        }
        if proofs.known.insert(ephemeral) {
            proofs.order.push_back(ephemeral);
        }
    }

    /// Remembers no first proof any more, as if this process had just begun.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn forget_proofs(&self) {
        *self.proofs.lock().unwrap_or_else(PoisonError::into_inner) = Proofs::default();
    }

    /// The identity of this process.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// When this process wants encryption.
    pub fn encrypt(&self) -> Encrypt {
        self.encrypt
    }

    /// The keys.
    pub fn ring(&self) -> Arc<Ring> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).ring.clone()
    }

    /// The keys, when somebody comes with this one. The file is read again, at most once a second: the user may have added that
    /// key, or replaced it.
    pub(crate) fn ring_with(&self, id: KeyId) -> Arc<Ring> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = keys.ring.find(id).is_some();
        if let Some((file, looked)) = &mut keys.file
            && looked.elapsed() >= AGAIN
        {
            *looked = Instant::now();
            match file.read() {
                // Whoever compares the keys by address sees no change where there is none.
                Ok(ring) if ring == *keys.ring => (),
                Ok(ring) => keys.ring = Arc::new(ring),
                Err(_) if is_known => (),
                Err(e) => base::log_seldom!(Error, "the keys stay as they are: {e}"),
            }
        }
        keys.ring.clone()
    }

    /// Reads the file again.
    pub fn reload(&self) -> Result<(), FileError> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, looked)) = &mut keys.file {
            *looked = Instant::now();
            let ring = file.read()?;
            keys.ring = Arc::new(ring);
        }
        Ok(())
    }
}
