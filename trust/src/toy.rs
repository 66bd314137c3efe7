//! Primitives that protect nothing, in place of those of [`crate::crypto`]: for fuzz targets that need very many handshakes.
//!
//! Here in tests and with the feature `fuzzing` alone, and used by a thread that has asked for them alone. What is read, decided
//! and refused is the same code with either. Invariants: both sides of an exchange compute the same; what differs in one byte has
//! another hash and another tag, so that only who looks for it finds two alike; no two ephemeral keys are alike.

use snow::Error;
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a tag, as the real cipher has them.
const TAG: usize = 16;

thread_local! {
    static IS_ON: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread uses them now.
pub(crate) fn is_on() -> bool {
    IS_ON.get()
}

/// Has this thread use them during a call.
pub(crate) fn during<R>(call: impl FnOnce() -> R) -> R {
    struct Back(bool);
    impl Drop for Back {
        fn drop(&mut self) {
            IS_ON.set(self.0);
        }
    }
    let _back = Back(IS_ON.replace(true));
    call()
}

pub(crate) struct Toys;

impl CryptoResolver for Toys {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Counted))
    }

    fn resolve_dh(&self, _: &DHChoice) -> Option<Box<dyn Dh>> {
        Some(Box::<Products>::default())
    }

    fn resolve_hash(&self, _: &HashChoice) -> Option<Box<dyn Hash>> {
        Some(Box::<Mixed>::default())
    }

    fn resolve_cipher(&self, _: &CipherChoice) -> Option<Box<dyn Cipher>> {
        Some(Box::<Masked>::default())
    }
}

/// The public key of a secret one.
pub(crate) fn public(secret: &[u8; 32]) -> [u8; 32] {
    let mut dh = Products::default();
    dh.set(secret);
    dh.public
}

fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    words.iter_mut().zip(bytes.as_chunks().0).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    words
}

fn bytes(words: [u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    bytes
}

/// Numbers that were not drawn before, in this process or another.
struct Counted;

impl Random for Counted {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), Error> {
        static FIRST: OnceLock<[u8; 32]> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        for part in dest.chunks_mut(32) {
            let mut mixed = Mixed::default();
            mixed.input(FIRST.get_or_init(base::ident::random));
            mixed.input(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            part.copy_from_slice(&bytes(mixed.end())[..part.len()]);
        }
        Ok(())
    }
}

/// Four odd numbers, and what a fixed odd number makes of them: `(a·g)·b = (b·g)·a`.
#[derive(Default)]
struct Products {
    secret: [u8; 32],
    public: [u8; 32],
}

const BASE: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0xd6e8_feb8_6659_fd93];

impl Products {
    fn times(&self, other: [u64; 4]) -> [u8; 32] {
        let secret = words(&self.secret);
        bytes(std::array::from_fn(|n| (secret[n] | 1).wrapping_mul(other[n])))
    }
}

impl Dh for Products {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, secret: &[u8]) {
        self.secret.copy_from_slice(secret);
        self.public = self.times(BASE);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), Error> {
        let mut secret = [0; 32];
        rng.try_fill_bytes(&mut secret)?;
        self.set(&secret);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.secret
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), Error> {
        let theirs = words(public.first_chunk().ok_or(Error::Dh)?);
        // As the real one does with points of small order.
        if theirs == [0; 4] {
            return Err(Error::Dh);
        }
        out[..32].copy_from_slice(&self.times(theirs));
        Ok(())
    }
}

/// A hash: each word of the input goes through a product of 128 bits.
struct Mixed {
    state: [u64; 4],
    length: u64,
}

impl Default for Mixed {
    fn default() -> Mixed {
        Mixed { state: BASE, length: 0 }
    }
}

impl Mixed {
    /// For two states, or two words, there are two results.
    fn add(&mut self, word: u64) {
        let [a, b, c, d] = self.state;
        let product = u128::from(a ^ word ^ BASE[1]).wrapping_mul(u128::from(BASE[0]));
        self.state = [b ^ product as u64, c.wrapping_add((product >> 64) as u64), d.rotate_left(29), a ^ word];
    }

    fn end(&mut self) -> [u64; 4] {
        for _ in 0..6 {
            self.add(self.length);
        }
        self.state
    }
}

impl Hash for Mixed {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        *self = Mixed::default();
    }

    fn input(&mut self, data: &[u8]) {
        let (whole, rest) = data.as_chunks::<8>();
        for word in whole {
            self.add(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
        self.length += data.len() as u64;
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(&bytes(self.end()));
    }

    fn hmac(&mut self, key: &[u8], data: &[u8], out: &mut [u8]) {
        self.reset();
        self.input(key);
        self.input(data);
        self.result(out);
    }
}

/// A cipher: what a hash of the key and the number makes, added to the text; and a hash of all as the tag.
#[derive(Default)]
struct Masked {
    key: [u8; 32],
}

impl Masked {
    fn hash(&self, n: u64) -> Mixed {
        let mut hash = Mixed::default();
        hash.input(&self.key);
        hash.add(n);
        hash
    }

    fn mask(&self, n: u64, text: &mut [u8]) {
        let mut stream = self.hash(n);
        for part in text.chunks_mut(32) {
            let with = bytes(stream.end());
            part.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
        }
    }

    fn tag(&self, n: u64, authtext: &[u8], sealed: &[u8]) -> u128 {
        let mut hash = self.hash(n);
        hash.input(authtext);
        hash.input(sealed);
        let [a, b, ..] = hash.end();
        u128::from(a) << 64 | u128::from(b)
    }
}

impl Cipher for Masked {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.key = *key;
    }

    fn encrypt(&self, n: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (text, tag) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        self.mask(n, text);
        tag[..TAG].copy_from_slice(&self.tag(n, authtext, text).to_le_bytes());
        plaintext.len() + TAG
    }

    fn decrypt(&self, n: u64, authtext: &[u8], sealed: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let (text, tag) = sealed.split_last_chunk().ok_or(Error::Decrypt)?;
        // As one number: a fuzzer sees no halves of the right one.
        if self.tag(n, authtext, text) != u128::from_le_bytes(*tag) {
            return Err(Error::Decrypt);
        }
        out[..text.len()].copy_from_slice(text);
        self.mask(n, &mut out[..text.len()]);
        Ok(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_agree_and_no_two_keys_are_alike() {
        let (mut one, mut other) = (Products::default(), Products::default());
        one.generate(&mut Counted).unwrap();
        other.generate(&mut Counted).unwrap();
        let (mut a, mut b) = ([0; 32], [0; 32]);
        one.dh(other.pubkey(), &mut a).unwrap();
        other.dh(one.pubkey(), &mut b).unwrap();
        assert_eq!(a, b);
        assert_ne!(one.public, other.public);
        assert_eq!(one.dh(&[0; 32], &mut a), Err(Error::Dh));
    }

    /// Any byte of any part counts, as does where one part ends and the next begins.
    #[test]
    fn what_was_changed_is_not_opened() {
        let cipher = Masked { key: [1; 32] };
        let text: [u8; 40] = std::array::from_fn(|n| n as u8);
        let mut sealed = [0; 40 + TAG];
        assert_eq!(cipher.encrypt(3, b"a", &text, &mut sealed), sealed.len());
        let mut out = [0; 40];
        assert_eq!(cipher.decrypt(3, b"a", &sealed, &mut out), Ok(40));
        assert_eq!(out, text);
        for at in 0..sealed.len() {
            let mut changed = sealed;
            changed[at] ^= 0x80;
            assert!(cipher.decrypt(3, b"a", &changed, &mut out).is_err(), "byte {at}");
        }
        assert!(cipher.decrypt(4, b"a", &sealed, &mut out).is_err());
        assert!(cipher.decrypt(3, b"b", &sealed, &mut out).is_err());
        assert!(cipher.decrypt(3, b"a\0", &sealed, &mut out).is_err());
        assert!(Masked { key: [2; 32] }.decrypt(3, b"a", &sealed, &mut out).is_err());
    }

    #[test]
    fn only_who_asks_for_toys_has_them() {
        assert!(!is_on());
        assert!(during(|| is_on() && during(is_on) && is_on()));
        assert!(std::panic::catch_unwind(|| during(|| panic!("as a target may"))).is_err());
        assert!(!is_on());
    }
}
