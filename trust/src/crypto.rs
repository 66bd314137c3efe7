//! The primitives that the Noise handshake is computed with: X25519, ChaCha20-Poly1305 and SHA-256 of AWS-LC.
//!
//! Used by the handshake alone. Random numbers come from the kernel, so nothing has to be seeded.

use crate::key::Key;
use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::digest;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};
use zeroize::Zeroizing;

/// The protocol: a pre-shared key before anything else; then each side's ephemeral and static key (docs/security.md).
const PATTERN: &str = "Noise_IXpsk0_25519_ChaChaPoly_SHA256";
/// Bytes of a tag of ChaCha20-Poly1305.
const TAG: usize = 16;

/// One side of a new handshake.
pub(crate) fn handshake(dials: bool, key: &Key, secret: &[u8; 32], prologue: &[u8]) -> HandshakeState {
    let build = || {
        let params: NoiseParams = PATTERN.parse()?;
        let builder = Builder::with_resolver(params, resolver());
        let builder = builder.psk(0, key.bytes())?.local_private_key(secret)?.prologue(prologue)?;
        if dials { builder.build_initiator() } else { builder.build_responder() }
    };
    build().unwrap_or_else(|e: snow::Error| unreachable!("all that the pattern needs is given: {e}"))
}

/// The primitives.
fn resolver() -> Box<dyn CryptoResolver + Send> {
    #[cfg(any(test, feature = "fuzzing"))]
    if crate::toy::is_on() {
        return Box::new(crate::toy::Toys);
    }
    Box::new(AwsLc)
}

/// The public key of a secret one.
pub(crate) fn public(secret: &[u8; 32]) -> [u8; 32] {
    #[cfg(any(test, feature = "fuzzing"))]
    if crate::toy::is_on() {
        return crate::toy::public(secret);
    }
    let mut dh = X25519Dh::default();
    dh.set(secret);
    dh.public
}

struct AwsLc;

impl CryptoResolver for AwsLc {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Kernel))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::<X25519Dh>::default() as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        matches!(choice, HashChoice::SHA256).then(|| Box::<Sha256>::default() as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        matches!(choice, CipherChoice::ChaChaPoly).then(|| Box::<ChaChaPoly>::default() as Box<dyn Cipher>)
    }
}

struct Kernel;

impl Random for Kernel {
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), snow::Error> {
        dest.chunks_mut(32).for_each(|part| part.copy_from_slice(&base::ident::random::<32>()[..part.len()]));
        Ok(())
    }
}

#[derive(Default)]
struct X25519Dh {
    secret: Zeroizing<[u8; 32]>,
    key: Option<PrivateKey>,
    public: [u8; 32],
}

impl Dh for X25519Dh {
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
        let key = PrivateKey::from_private_key(&X25519, secret).expect("any 32 bytes are a secret key");
        let public = key.compute_public_key().expect("X25519 gives every secret key a public one");
        self.public.copy_from_slice(public.as_ref());
        self.key = Some(key);
    }

    fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
        let mut secret = Zeroizing::new([0; 32]);
        rng.try_fill_bytes(&mut secret[..])?;
        self.set(&secret[..]);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.secret[..]
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let key = self.key.as_ref().ok_or(snow::Error::Dh)?;
        let theirs = UnparsedPublicKey::new(&X25519, &public[..32]);
        // A public key of small order is refused here.
        agreement::agree(key, theirs, snow::Error::Dh, |shared| {
            out[..32].copy_from_slice(shared);
            Ok(())
        })
    }
}

struct Sha256(digest::Context);

impl Default for Sha256 {
    fn default() -> Sha256 {
        Sha256(digest::Context::new(&digest::SHA256))
    }
}

impl Hash for Sha256 {
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
        *self = Sha256::default();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(std::mem::take(self).0.finish().as_ref());
    }
}

impl Default for ChaChaPoly {
    fn default() -> ChaChaPoly {
        ChaChaPoly { key: key(&[0; 32]) }
    }
}

struct ChaChaPoly {
    key: LessSafeKey,
}

fn key(bytes: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, bytes).expect("a key of 32 bytes"))
}

/// As Noise says: four bytes of zero, then the counter, little-endian.
fn nonce(n: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&n.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl Cipher for ChaChaPoly {
    fn name(&self) -> &'static str {
        "ChaChaPoly"
    }

    fn set(&mut self, bytes: &[u8; 32]) {
        self.key = key(bytes);
    }

    fn encrypt(&self, n: u64, authtext: &[u8], plaintext: &[u8], out: &mut [u8]) -> usize {
        let (text, tag) = out.split_at_mut(plaintext.len());
        text.copy_from_slice(plaintext);
        let made = self.key.seal_in_place_separate_tag(nonce(n), Aad::from(authtext), text);
        tag[..TAG].copy_from_slice(made.expect("a handshake's message is short").as_ref());
        plaintext.len() + TAG
    }

    fn decrypt(&self, n: u64, authtext: &[u8], sealed: &[u8], out: &mut [u8]) -> Result<usize, snow::Error> {
        let len = sealed.len().checked_sub(TAG).ok_or(snow::Error::Decrypt)?;
        let (text, tag) = sealed.split_at(len);
        let opened = self.key.open_separate_gather(nonce(n), Aad::from(authtext), text, tag, &mut out[..len]);
        opened.map(|()| len).map_err(|_| snow::Error::Decrypt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
    }

    /// RFC 7748, section 5.2: the first iteration.
    #[test]
    fn x25519_gives_the_known_value() {
        let mut nine = [0; 32];
        nine[0] = 9;
        let known = bytes("422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
        assert_eq!(public(&nine)[..], known[..]);
        let mut dh = X25519Dh::default();
        dh.set(&nine);
        let mut out = [0; 32];
        dh.dh(&nine, &mut out).unwrap();
        assert_eq!(out[..], known[..]);
        assert!(dh.dh(&[0; 32], &mut out).is_err(), "a key of small order");
    }

    #[test]
    fn both_sides_agree() {
        let (mut one, mut other) = (X25519Dh::default(), X25519Dh::default());
        one.generate(&mut Kernel).unwrap();
        other.generate(&mut Kernel).unwrap();
        let (mut a, mut b) = ([0; 32], [0; 32]);
        one.dh(other.pubkey(), &mut a).unwrap();
        other.dh(one.pubkey(), &mut b).unwrap();
        assert_eq!(a, b);
        assert_ne!(one.pubkey(), other.pubkey());
    }

    /// RFC 4231, test case 1.
    #[test]
    fn hmac_gives_the_known_value() {
        let mut hash = Sha256::default();
        let mut out = [0; 32];
        hash.hmac(&[0x0b; 20], b"Hi There", &mut out);
        assert_eq!(out[..], bytes("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")[..]);
    }

    #[test]
    fn what_was_changed_is_not_opened() {
        let cipher = ChaChaPoly { key: key(&[1; 32]) };
        let mut sealed = [0; 21];
        assert_eq!(cipher.encrypt(3, b"a", b"hello", &mut sealed), 21);
        let mut out = [0; 5];
        assert_eq!(cipher.decrypt(3, b"a", &sealed, &mut out), Ok(5));
        assert_eq!(&out, b"hello");
        assert!(cipher.decrypt(4, b"a", &sealed, &mut out).is_err());
        assert!(cipher.decrypt(3, b"b", &sealed, &mut out).is_err());
        sealed[0] ^= 1;
        assert!(cipher.decrypt(3, b"a", &sealed, &mut out).is_err());
        assert!(cipher.decrypt(3, b"a", &[0; 15], &mut out).is_err());
    }
}
