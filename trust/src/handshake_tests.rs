use super::*;
use crate::file::KeyFile;
use crate::greeting::Encrypt;
use std::collections::HashSet;
use std::io::{IoSlice, IoSliceMut};

fn trust(keys: &[&Key], encrypt: Encrypt) -> Arc<Trust> {
    let others = keys[1..].iter().map(|key| (*key).clone());
    Arc::new(Trust::new(Ring::new(keys[0].clone(), others), encrypt))
}

/// What became of a handshake: both channels, or why each side has none.
type Outcome = (Result<Channel, Refused>, Result<Channel, Refused>);

/// Runs a handshake to its end. `meddle` sees each message, with its number, and may change it.
fn meet(dials: &Arc<Trust>, answers: &Arc<Trust>, near: bool, meddle: impl FnMut(usize, &mut Vec<u8>)) -> Outcome {
    meet_for(Protocol::Jobs, dials, Answering::begin(answers, Protocol::Jobs, near), near, meddle)
}

fn meet_for(
    protocol: Protocol,
    dials: &Arc<Trust>,
    mut answering: Answering,
    near: bool,
    mut meddle: impl FnMut(usize, &mut Vec<u8>),
) -> Outcome {
    let (mut dialling, mut to_answerer) = Dialling::begin(dials, protocol, near);
    let (mut messages, mut to_dialler) = (0, Vec::new());
    let (mut dialled, mut answered) = (None, None);
    loop {
        meddle(messages, &mut to_answerer);
        messages += 1;
        while answered.is_none() && to_answerer.len() >= answering.wants() && answering.wants() > 0 {
            let bytes: Vec<u8> = to_answerer.drain(..answering.wants()).collect();
            match answering.hear(&bytes) {
                Ok(Progress::More) => (),
                Ok(Progress::Say(bytes)) => to_dialler.extend(bytes),
                Ok(Progress::Done(bytes)) => {
                    to_dialler.extend(bytes);
                    answered = Some(Ok(()));
                }
                Err(refusal) => {
                    to_dialler.extend(refusal.say);
                    answered = Some(Err(refusal.why));
                }
            }
        }
        if to_dialler.is_empty() {
            break;
        }
        meddle(messages, &mut to_dialler);
        messages += 1;
        while dialled.is_none() && to_dialler.len() >= dialling.wants() && dialling.wants() > 0 {
            let bytes: Vec<u8> = to_dialler.drain(..dialling.wants()).collect();
            match dialling.hear(&bytes) {
                Ok(Progress::More) => (),
                Ok(Progress::Say(bytes)) => to_answerer.extend(bytes),
                Ok(Progress::Done(bytes)) => {
                    to_answerer.extend(bytes);
                    dialled = Some(Ok(()));
                }
                Err(why) => dialled = Some(Err(why)),
            }
        }
        if to_answerer.is_empty() {
            break;
        }
        to_dialler.clear();
    }
    let refused = answering.refused().unwrap_or(Refused::Foreign);
    let answered = answered.unwrap_or(Err(refused)).map(|()| answering.finish().expect("it is done"));
    let dialled = dialled.unwrap_or(Err(Refused::Foreign)).map(|()| dialling.finish().expect("it is done"));
    (dialled, answered)
}

fn undisturbed(dials: &Arc<Trust>, answers: &Arc<Trust>, near: bool) -> Outcome {
    meet(dials, answers, near, |_, _| ())
}

fn carry(from: Channel, to: Channel) -> Vec<u8> {
    let ((mut outbox, _), (_, mut inbox)) = (from.into_records().unwrap(), to.into_records().unwrap());
    outbox.add(&[IoSlice::new(b"hello")]);
    let mut bytes = outbox.waiting();
    while !bytes.is_empty() {
        let space = inbox.space().unwrap();
        let n = space.len();
        space.copy_from_slice(&bytes[..n]);
        inbox.filled(n);
        bytes = &bytes[n..];
    }
    let mut to = [0; 10];
    let n = inbox.take(&mut [IoSliceMut::new(&mut to)]).unwrap();
    to[..n].to_vec()
}

#[test]
fn both_sides_prove_the_key_and_who_they_are() {
    let key = Key::new();
    let (a, b) = (trust(&[&key], Encrypt::Network), trust(&[&key], Encrypt::Network));
    let (dialled, answered) = undisturbed(&a, &b, false);
    let (dialled, answered) = (dialled.unwrap(), answered.unwrap());
    assert_eq!(dialled.process, b.identity().process());
    assert_eq!(answered.process, a.identity().process());
    assert_eq!((dialled.key, answered.key), (key.id(), key.id()));
    assert!(dialled.is_encrypted() && answered.is_encrypted());
    assert_eq!(carry(dialled, answered), b"hello");
    let (dialled, answered) = undisturbed(&b, &a, false);
    assert_eq!(carry(answered.unwrap(), dialled.unwrap()), b"hello");
}

#[test]
fn wishes_decide_about_encryption_and_contradiction_is_told_to_both() {
    let key = Key::new();
    use Encrypt::*;
    for (one, other, near, encrypted) in [
        (Network, Network, true, Some(false)),
        (Network, Network, false, Some(true)),
        (Always, Network, true, Some(true)),
        (Network, Always, true, Some(true)),
        (Never, Never, false, Some(false)),
        (Never, Network, true, Some(false)),
        (Never, Network, false, None),
        (Always, Never, true, None),
    ] {
        let (a, b) = (trust(&[&key], one), trust(&[&key], other));
        let (dialled, answered) = undisturbed(&a, &b, near);
        match encrypted {
            Some(wanted) => {
                assert_eq!(dialled.unwrap().is_encrypted(), wanted);
                assert_eq!(answered.unwrap().is_encrypted(), wanted);
            }
            None => {
                assert_eq!(dialled.err(), Some(Refused::Encryption), "{one:?} {other:?}");
                assert_eq!(answered.err(), Some(Refused::Encryption));
            }
        }
    }
}

#[test]
fn without_a_key_in_common_both_are_told_both_identifiers() {
    let (one, other) = (Key::new(), Key::new());
    let (a, b) = (trust(&[&one], Encrypt::Network), trust(&[&other], Encrypt::Network));
    let (dialled, answered) = undisturbed(&a, &b, false);
    let (ours, theirs) = (one.id(), other.id());
    assert_eq!(dialled.err(), Some(Refused::OtherKey { ours, theirs }));
    let (ours, theirs) = (theirs, ours);
    assert_eq!(answered.err(), Some(Refused::OtherKey { ours, theirs }));
    let told = Refused::OtherKey { ours, theirs }.to_string();
    assert!(told.contains(&ours.to_string()) && told.contains(&theirs.to_string()), "{told}");
    assert!(told.contains("mpi-connect key path"), "{told}");
}

#[test]
fn a_wish_that_means_nothing_is_an_error() {
    assert_eq!(Encrypt::of_setting(" always ").unwrap(), Encrypt::Always);
    assert_eq!(Encrypt::of_setting(" ").unwrap(), Encrypt::Network);
    for word in ["Always", "allways", "1"] {
        let error = Encrypt::of_setting(word).unwrap_err();
        assert!(error.is_setting() && error.name() == "MPI_CONNECT_ENCRYPT", "{error}");
    }
}

/// The old key was replaced in the file that both sides read, and the dialling side has not seen it yet.
#[test]
fn a_dialling_process_with_a_replaced_key_reads_its_file_again() {
    let dir = std::env::temp_dir().join(format!("again-{:016x}", u64::from_le_bytes(base::ident::random())));
    let file = KeyFile::at(dir.join("key"));
    let old = Arc::new(Trust::from_file(file.clone(), Encrypt::Network).unwrap());
    file.renew(false).unwrap();
    let new = Arc::new(Trust::from_file(file.clone(), Encrypt::Network).unwrap());
    // It reads once a second at most.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let (dialled, answered) = loop {
        if let (Ok(dialled), Ok(answered)) = undisturbed(&old, &new, false) {
            break (dialled, answered);
        }
        assert!(std::time::Instant::now() < limit, "the file was not read again");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    let own = new.ring().own().id();
    assert_eq!((dialled.key, answered.key), (own, own));
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A process that runs does not go on accepting a key that is gone from its file.
#[test]
fn a_key_that_was_replaced_is_not_accepted_any_more() {
    let dir = std::env::temp_dir().join(format!("gone-{:016x}", u64::from_le_bytes(base::ident::random())));
    let file = KeyFile::at(dir.join("key"));
    let answers = Arc::new(Trust::from_file(file.clone(), Encrypt::Network).unwrap());
    let old = trust(&[answers.ring().own()], Encrypt::Network);
    assert!(undisturbed(&old, &answers, false).1.is_ok());
    file.renew(false).unwrap();
    // It reads once a second at most.
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while undisturbed(&old, &answers, false).1.is_ok() {
        assert!(std::time::Instant::now() < limit, "the file was not read again");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// While a key is exchanged, each side may have the old one, the new one, or both.
#[test]
fn a_key_is_exchanged_without_a_stop() {
    let (old, new) = (Key::new(), Key::new());
    let both = trust(&[&new, &old], Encrypt::Network);
    for (other, agreed) in [(trust(&[&old], Encrypt::Network), &old), (trust(&[&new], Encrypt::Network), &new)] {
        for (a, b) in [(&both, &other), (&other, &both)] {
            let (dialled, answered) = undisturbed(a, b, false);
            assert_eq!((dialled.unwrap().key, answered.unwrap().key), (agreed.id(), agreed.id()));
        }
    }
    let third = trust(&[&Key::new()], Encrypt::Network);
    assert!(matches!(
        undisturbed(&both, &third, false),
        (Err(Refused::OtherKey { .. }), Err(Refused::OtherKey { .. }))
    ));
}

/// Each bit of each message, changed on the way: one side, at least, has no channel; the side that dialled has none unless
/// only its confirmation was changed; and no change makes an encrypted connection a plain one.
#[test]
fn what_was_changed_on_the_way_proves_nothing() {
    let key = Key::new();
    let (a, b) = (trust(&[&key], Encrypt::Network), trust(&[&key], Encrypt::Network));
    let mut lengths = Vec::new();
    let _ = meet(&a, &b, false, |_, bytes| lengths.push(bytes.len()));
    assert_eq!(lengths, [GREETING + FIRST_PROOF, GREETING + SECOND_PROOF, CONFIRMATION]);
    for (message, len) in lengths.into_iter().enumerate() {
        for bit in 0..8 * len {
            let mut changed = false;
            let (dialled, answered) = meet(&a, &b, false, |n, bytes| {
                if n == message && !std::mem::replace(&mut changed, true) {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            });
            let is_of_answer = message == 1 && bit < 8 * GREETING;
            if is_of_answer && let Ok(channel) = &dialled {
                // Fields of the answer's head that decide nothing.
                assert!(channel.is_encrypted());
                continue;
            }
            assert!(answered.is_err(), "message {message}, bit {bit}");
            assert!(dialled.is_err() || message == 2, "message {message}, bit {bit}");
        }
    }
}

/// What was heard of one handshake is of no use for another.
#[test]
fn what_was_recorded_proves_nothing_later() {
    let key = Key::new();
    let (a, b) = (trust(&[&key], Encrypt::Network), trust(&[&key], Encrypt::Network));
    let mut recorded = Vec::new();
    let (dialled, _) = meet(&a, &b, false, |_, bytes| recorded.push(bytes.clone()));
    assert!(dialled.is_ok());
    let c = trust(&[&key], Encrypt::Network);
    let mut answering = Answering::begin(&c, Protocol::Jobs, false);
    assert_eq!(answering.hear(&recorded[0][..GREETING]), Ok(Progress::More));
    let said = answering.hear(&recorded[0][GREETING..]).unwrap();
    assert!(matches!(&said, Progress::Say(bytes) if *bytes != recorded[1]), "an answer is never given twice");
    let refusal = answering.hear(&recorded[2]).unwrap_err();
    assert_eq!((refusal.why, answering.finish().is_none()), (Refused::WrongProof, true));
    // It was not recorded at this process. A second time it is not even answered.
    let mut answering = Answering::begin(&c, Protocol::Jobs, false);
    assert_eq!(answering.hear(&recorded[0][..GREETING]), Ok(Progress::More));
    let refusal = answering.hear(&recorded[0][GREETING..]).unwrap_err();
    assert_eq!((refusal.why, refusal.say.len(), answering.is_answered()), (Refused::WrongProof, GREETING, false));
    // And an answer that was recorded is none to another greeting.
    let (mut dialling, _) = Dialling::begin(&a, Protocol::Jobs, false);
    assert_eq!(dialling.hear(&recorded[1][..GREETING]), Ok(Progress::More));
    assert_eq!(dialling.hear(&recorded[1][GREETING..]), Err(Refused::WrongProof));
}

/// A member between two others can pass on what they say, but cannot take the place of either.
#[test]
fn a_member_in_the_middle_has_its_own_identity_only() {
    let key = Key::new();
    let [a, b, m] = [0; 3].map(|_| trust(&[&key], Encrypt::Network));
    let (dialled, _) = undisturbed(&a, &m, false);
    assert_eq!(dialled.unwrap().process, m.identity().process());
    let (_, answered) = undisturbed(&m, &b, false);
    assert_eq!(answered.unwrap().process, m.identity().process());
}

#[test]
fn a_greeting_of_one_protocol_is_none_of_the_other() {
    let key = Key::new();
    let a = trust(&[&key], Encrypt::Network);
    let (_, said) = Dialling::begin(&a, Protocol::Naming, false);
    let refusal = Answering::begin(&a, Protocol::Jobs, false).hear(&said[..GREETING]).unwrap_err();
    assert_eq!(refusal, Refusal { why: Refused::Foreign, say: Vec::new() });
    // Nor with the other's magic.
    let mut said = said;
    said[..8].copy_from_slice(&numbers::JOBS);
    said[8..10].copy_from_slice(&Protocol::Jobs.version().to_le_bytes());
    let mut answering = Answering::begin(&a, Protocol::Jobs, false);
    assert_eq!(answering.hear(&said[..GREETING]), Ok(Progress::More));
    assert_eq!(answering.hear(&said[GREETING..]).unwrap_err().why, Refused::WrongProof);
}

#[test]
fn another_version_and_unknown_flags_are_told() {
    let key = Key::new();
    let a = trust(&[&key], Encrypt::Network);
    for (at, value, why) in [(8, 77, Refused::OtherVersion(77)), (13, 1, Refused::UnknownFlags)] {
        let (dialled, answered) = meet(&a, &a, false, |n, bytes| {
            if n == 0 {
                bytes[at] = value;
            }
        });
        assert_eq!(answered.err(), Some(why));
        let told = if at == 8 { Refused::OtherVersion(Protocol::Jobs.version()) } else { why };
        assert_eq!(dialled.err(), Some(told));
    }
}

/// Connections between the same two processes, again and again: no key and no message is ever the same.
#[test]
fn every_connection_has_keys_of_its_own() {
    let key = Key::new();
    let (a, b) = (trust(&[&key], Encrypt::Network), trust(&[&key], Encrypt::Network));
    let mut seen = HashSet::new();
    for n in 0..500 {
        let (from, to) = if n % 2 == 0 { (&a, &b) } else { (&b, &a) };
        let (dialled, _) = meet(from, to, false, |_, bytes| assert!(seen.insert(bytes.clone())));
        let mut dialled = dialled.unwrap();
        for direction in [&mut dialled.outgoing, &mut dialled.incoming] {
            assert!(seen.insert(direction.confirm().to_vec()), "the same key and nonce");
        }
    }
}

/// Two users without a key in common meet in one group, whose cookie both know, and nowhere else.
#[test]
fn a_group_of_its_own_key_is_reached_without_the_users() {
    let (a, b) = (trust(&[&Key::new()], Encrypt::Network), trust(&[&Key::new()], Encrypt::Network));
    let (group, cookie) = (77, [5; 16]);
    b.pass(group, &cookie, |_| true);
    let to = |a: &Arc<Trust>, group| {
        let (mut dialling, greeting) = Dialling::begin_to(a, Protocol::Jobs, false, Some(group));
        let mut answering = Answering::begin(&b, Protocol::Jobs, false);
        assert_eq!(answering.hear(&greeting[..GREETING]), Ok(Progress::More));
        let said = answering.hear(&greeting[GREETING..]).unwrap();
        let Progress::Say(answer) = said else { panic!("nothing is said") };
        dialling.hear(&answer[..GREETING])?;
        let Ok(Progress::Done(confirmation)) = dialling.hear(&answer[GREETING..]) else { panic!("it is not let in") };
        answering.hear(&confirmation).unwrap();
        Ok(answering.finish().unwrap().key)
    };
    assert!(matches!(to(&a, group), Err(Refused::OtherKey { .. })), "who does not know the cookie");
    a.pass_to(group, &[6; 16], |_| false);
    assert!(matches!(to(&a, group), Err(Refused::OtherKey { .. })), "nor who knows a wrong one");
    a.pass_to(group, &cookie, |_| false);
    let key = to(&a, group).unwrap();
    assert!(b.allows(key, group) && !b.allows(key, group + 1), "it is good for that group alone");
    assert!(matches!(to(&a, group + 1), Err(Refused::OtherKey { .. })));
    assert!(b.allows(b.ring().own().id(), group + 1) && !b.allows(a.ring().own().id(), group));
}

/// What another job says of its group, which may be anything, changes nothing of what is accepted for ours, nor how a third one is
/// dialled.
#[test]
fn what_others_say_of_their_groups_takes_no_key_from_ours() {
    let (user, cookie, third) = (Key::new(), [5; 16], [9; 16]);
    let b = trust(&[&user], Encrypt::Network);
    let (ours, theirs) = (77, 78);
    b.pass(ours, &cookie, |_| true);
    b.pass_to(theirs, &third, |_| true);
    let id = |cookie: &[u8; 16]| Key::derived("mpi-connect pass", cookie).id();
    for (incarnation, said) in [(ours, [6; 16]), (79, cookie), (ours, cookie), (theirs, [6; 16])] {
        b.pass_to(incarnation, &said, |_| true);
        assert!(b.allows(id(&cookie), ours), "{incarnation}");
        assert!(b.pass_with(id(&[6; 16])).is_none() && !b.allows(id(&[6; 16]), ours), "{incarnation}");
    }
    assert_eq!(b.key_for(Some(theirs)).map(|key| key.id()), Some(id(&third)));
    assert!(!b.has_pass(theirs));
}

#[test]
fn keys_of_groups_that_are_gone_do_not_pile_up() {
    let a = trust(&[&Key::new()], Encrypt::Network);
    for group in 0..10_000u64 {
        let mut cookie = [0; 16];
        cookie[..8].copy_from_slice(&group.to_le_bytes());
        a.pass(group, &cookie, |known| known + 10 > group);
        assert!(a.has_pass(group) && a.passes() <= 128, "{}", a.passes());
    }
    assert!(!a.has_pass(0));
    for group in 0..10_000u64 {
        a.pass_to(group, &[1; 16], |known| known + 10 > group);
        assert!(a.key_for(Some(group)).is_some() && a.passes() <= 256, "{}", a.passes());
    }
}

/// A listener may take two protocols, and the greeting chooses. A key that is good for one group proves nothing to a listener
/// of commands, however right its proof is.
#[test]
fn commands_are_for_keys_of_the_user_alone() {
    let (key, cookie) = (Key::new(), [7; 16]);
    let (user, answers) = (trust(&[&key], Encrypt::Network), trust(&[&key], Encrypt::Network));
    answers.pass(1, &cookie, |_| true);
    let caller = trust(&[&Key::derived("mpi-connect pass", &cookie)], Encrypt::Network);
    let try_as = |protocol, dials: &Arc<Trust>| {
        let answering = Answering::begin(&answers, Protocol::Jobs, false).or(Protocol::Control);
        meet_for(protocol, dials, answering, false, |_, _| ())
    };
    for protocol in [Protocol::Jobs, Protocol::Control] {
        let (dialled, answered) = try_as(protocol, &user);
        let (dialled, answered) = (dialled.unwrap(), answered.unwrap());
        assert_eq!((dialled.protocol, answered.protocol), (protocol, protocol));
        assert!(dialled.is_encrypted() && carry(dialled, answered) == b"hello");
    }
    assert!(try_as(Protocol::Jobs, &caller).1.is_ok(), "to its group");
    let (dialled, answered) = try_as(Protocol::Control, &caller);
    assert!(matches!(dialled, Err(Refused::OtherKey { .. })) && matches!(answered, Err(Refused::OtherKey { .. })));
    assert!(matches!(try_as(Protocol::Naming, &user), (Err(_), Err(Refused::Foreign))), "and no third one");
    let (dialled, answered) =
        meet_for(Protocol::Control, &user, Answering::begin(&answers, Protocol::Jobs, false), false, |_, _| ());
    assert!(dialled.is_err() && answered.is_err(), "a listener without commands takes none");
}

/// What fuzz targets have is the same handshake, and gets nobody in where the primitives are the real ones.
#[test]
fn a_cheap_handshake_is_one_among_cheap_ones_alone() {
    use crate::fuzzing::cheaply;
    let key = Key::new();
    let both = || (trust(&[&key], Encrypt::Network), trust(&[&key], Encrypt::Network));
    cheaply(|| {
        let (a, b) = both();
        let (dialled, answered) = undisturbed(&a, &b, false);
        let (dialled, answered) = (dialled.unwrap(), answered.unwrap());
        assert_eq!((dialled.process, answered.process), (b.identity().process(), a.identity().process()));
        assert_eq!(carry(dialled, answered), b"hello");
        for at in GREETING..GREETING + FIRST_PROOF {
            let change = |n, bytes: &mut Vec<u8>| {
                if n == 0 {
                    bytes[at] ^= 1;
                }
            };
            let (dialled, answered) = meet(&a, &b, false, change);
            assert_eq!((dialled.err(), answered.err()), (Some(Refused::WrongProof), Some(Refused::WrongProof)), "{at}");
        }
    });
    let (a, b) = both();
    let (_, said) = cheaply(|| Dialling::begin(&a, Protocol::Jobs, false));
    let mut answering = Answering::begin(&b, Protocol::Jobs, false);
    assert_eq!(answering.hear(&said[..GREETING]), Ok(Progress::More));
    assert_eq!(answering.hear(&said[GREETING..]).map_err(|refusal| refusal.why), Err(Refused::WrongProof));
}
