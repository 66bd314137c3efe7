use super::*;

fn pair(protection: Protection) -> (Outbox, Inbox) {
    let direction = || Direction::new(protection, &[7; 32]);
    (Outbox::new(direction()), Inbox::new(direction()))
}

/// Hands these bytes to the inbox, at most `most` at a time, and returns the content.
fn receive(inbox: &mut Inbox, mut bytes: &[u8], most: usize, room: usize) -> Result<Vec<u8>, Broken> {
    let mut content = Vec::new();
    let mut to = vec![0; room];
    loop {
        loop {
            let n = inbox.take(&mut [IoSliceMut::new(&mut to)])?;
            if n == 0 {
                break;
            }
            content.extend_from_slice(&to[..n]);
        }
        if bytes.is_empty() {
            return Ok(content);
        }
        let space = inbox.space()?;
        let n = space.len().min(bytes.len()).min(most);
        assert!(n > 0, "neither content nor space");
        space[..n].copy_from_slice(&bytes[..n]);
        inbox.filled(n);
        bytes = &bytes[n..];
    }
}

#[test]
fn content_comes_back_in_whatever_pieces_it_travels() {
    let text: Vec<u8> = (0..200_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
    for protection in [Protection::Aes, Protection::ChaCha] {
        for pieces in [1usize, 2, 7] {
            let (mut outbox, mut inbox) = pair(protection);
            let mut at = 0;
            let mut wire = Vec::new();
            while at < text.len() {
                let size = (text.len() - at).div_ceil(pieces);
                let slices: Vec<_> = text[at..].chunks(size).map(IoSlice::new).collect();
                let n = outbox.add(&slices);
                assert!(n > 0 && n <= MOST_RECORD);
                at += n;
                let waiting = outbox.waiting().to_vec();
                wire.extend_from_slice(&waiting);
                outbox.sent(waiting.len());
            }
            for (most, room) in [(usize::MAX, 1 << 20), (1000, 100), (65_537, MOST_RECORD), (4096, 4096)] {
                for ahead in [false, true] {
                    let mut inbox = Inbox::new(Direction::new(protection, &[7; 32]));
                    inbox.ahead = ahead;
                    assert!(receive(&mut inbox, &wire, most, room).unwrap() == text, "{most} {room} {ahead}");
                    assert!(inbox.bytes.len() <= BUFFER && !inbox.has_content());
                }
            }
            assert!(receive(&mut inbox, &wire, 1 << 14, 9000).unwrap() == text);
        }
    }
}

/// Three records, and their boundaries.
fn three() -> (Vec<u8>, [usize; 4]) {
    let (mut outbox, _) = pair(Protection::Aes);
    let mut ends = [0; 4];
    for (n, text) in [&b"one"[..], b"second", b"the third"].iter().enumerate() {
        assert_eq!(outbox.add(&[IoSlice::new(text)]), text.len());
        ends[n + 1] = outbox.waiting().len();
    }
    (outbox.waiting().to_vec(), ends)
}

fn opened(bytes: &[u8]) -> Result<Vec<u8>, Broken> {
    let (_, mut inbox) = pair(Protection::Aes);
    receive(&mut inbox, bytes, usize::MAX, 100)
}

#[test]
fn what_was_changed_repeated_left_out_or_reordered_is_not_delivered() {
    let (bytes, ends) = three();
    let record = |n: usize| &bytes[ends[n]..ends[n + 1]];
    assert_eq!(opened(&bytes).unwrap(), b"onesecondthe third");
    for (order, what) in [
        (&[0, 0][..], "repeated"),
        (&[1, 0], "reordered"),
        (&[0, 2], "one left out"),
        (&[1], "the first left out"),
        (&[0, 1, 0], "an old one again"),
    ] {
        let bytes: Vec<u8> = order.iter().flat_map(|n| record(*n)).copied().collect();
        assert_eq!(opened(&bytes), Err(Broken), "{what}");
    }
    // Each bit of the first record. A bit of its length may make it longer: then more is awaited, and nothing delivered.
    for bit in 0..8 * ends[1] {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(opened(&bad).is_err() || bit < 32 && opened(&bad).unwrap().is_empty(), "bit {bit}");
    }
    assert_eq!(opened(&bytes[..ends[1] + 5]).unwrap(), b"one", "a record that was cut is awaited");
}

/// With what is here already, nobody has to wait for the connection.
#[test]
fn content_that_was_read_ahead_is_told() {
    let (bytes, ends) = three();
    let (_, mut inbox) = pair(Protection::Aes);
    inbox.read_ahead();
    let space = inbox.space().unwrap();
    assert!(space.len() > bytes.len());
    let n = ends[2] + 5;
    space[..n].copy_from_slice(&bytes[..n]);
    inbox.filled(n);
    let mut to = [0; 4];
    let mut all = Vec::new();
    while inbox.has_content() {
        assert!(inbox.space().unwrap().is_empty());
        let n = inbox.take(&mut [IoSliceMut::new(&mut to)]).unwrap();
        all.extend_from_slice(&to[..n]);
    }
    assert_eq!(all, b"onesecond");
    assert!(!inbox.space().unwrap().is_empty(), "the rest of the third is awaited");
}

#[test]
fn lengths_that_no_record_has_are_refused_before_memory_is_taken() {
    for len in [0, TAG as u32, (TAG + MOST_RECORD) as u32 + 1, u32::MAX] {
        let (_, mut inbox) = pair(Protection::Aes);
        inbox.space().unwrap()[..4].copy_from_slice(&len.to_le_bytes());
        inbox.filled(4);
        assert!(inbox.space() == Err(Broken) && inbox.take(&mut []) == Err(Broken), "{len}");
    }
}

#[test]
fn a_direction_goes_on_with_a_new_key_and_its_nonces_go_on_too() {
    let secrets = |from: u64, records: usize| {
        let (mut outbox, mut inbox) = pair(Protection::ChaCha);
        (outbox.direction.next, inbox.direction.next) = (from, from);
        let before = outbox.direction.secret.clone();
        for n in 0..records {
            outbox.add(&[IoSlice::new(b"text")]);
            let record = outbox.waiting().to_vec();
            outbox.sent(record.len());
            assert_eq!(receive(&mut inbox, &record, usize::MAX, 100).unwrap(), b"text");
            assert_eq!(outbox.direction.next, from + n as u64 + 1);
        }
        (before, outbox.direction.secret.clone())
    };
    let (before, after) = secrets(REKEY - 2, 2);
    assert_eq!(before, after);
    let (before, after) = secrets(REKEY - 2, 5);
    assert_ne!(before, after);
    let (before, after) = secrets(3 * REKEY, 1);
    assert_ne!(before, after);
}

/// The same content twice gives other bytes, in both directions and under all ciphers.
#[test]
fn nothing_is_encrypted_alike_twice() {
    let mut seen = std::collections::HashSet::new();
    for protection in [Protection::Aes, Protection::ChaCha] {
        for secret in [[7; 32], [8; 32]] {
            let mut outbox = Outbox::new(Direction::new(protection, &secret));
            for _ in 0..1000 {
                outbox.add(&[IoSlice::new(&[0; 32])]);
                assert!(seen.insert(outbox.waiting().to_vec()));
                outbox.sent(outbox.waiting().len());
            }
        }
    }
}
