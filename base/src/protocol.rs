//! Every number of the wire protocol, with its meaning, for the code and for docs/protocol.md. Numbers are
//! little-endian.
//!
//! All code that writes or reads bytes takes its numbers from here. The tables of docs/protocol.md are made from the
//! same lines, and a test compares them. Invariants: each number has a row, and each field begins where the one before
//! it ends. Timeouts and local limits are no part of the protocol: they stand where they are used.

/// A table of docs/protocol.md.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// The titles of the columns.
    pub head: &'static [&'static str],
    /// The rows. Each has as many cells as there are columns.
    pub rows: &'static [&'static [&'static str]],
}

/// Numbers of one kind: each is a constant and a row of the table. A constant's documentation is its row.
macro_rules! numbers {
    ($(#[$about:meta])* $table:ident: $type:ty, [$($head:literal),*]; $($number:literal $name:ident $($cell:literal)*;)*) => {
        $(
            #[doc = concat!("`", stringify!($number), "`", $(" | ", $cell,)* " (a row of [`", stringify!($table), "`]).")]
            pub const $name: $type = $number;
        )*
        $(#[$about])*
        pub const $table: crate::protocol::Table = crate::protocol::Table {
            head: &[$($head),*],
            rows: &[$(&[stringify!($number), stringify!($name), $($cell),*]),*],
        };
    };
}

/// Fields in order: each is a constant, its offset in bytes, and a row of the table. `BYTES` is the length of all.
macro_rules! layout {
    ($(#[$about:meta])* $layout:ident, $bytes:literal, $end:literal; $($at:literal $name:ident $size:literal $meaning:literal;)*) => {
        $(#[$about])*
        pub mod $layout {
            $(
                #[doc = concat!("Offset ", stringify!($at), ", ", $size, ": ", $meaning, ".")]
                pub const $name: usize = $at;
            )*
            /// Bytes of all fields together.
            pub const BYTES: usize = $bytes;
            /// The fields, as docs/protocol.md shows them.
            pub const TABLE: crate::protocol::Table = crate::protocol::Table {
                head: &["offset", "type", "field"],
                rows: &[$(&[stringify!($at), $size, $meaning],)* &[stringify!($bytes), "", $end]],
            };
        }
    };
}

/// The greeting: the first bytes of either side on a new connection, before anything is trusted. Jobs and naming services
/// have the same, each with its own magic and version.
pub mod greeting {
    /// The first bytes between processes of jobs.
    pub const JOBS: [u8; 8] = *b"MPICONN1";
    /// The first bytes between a client and a naming server.
    pub const NAMING: [u8; 8] = *b"MPICNSRV";
    /// The first bytes between an operator and a process of a job, and between processes of that job that pass commands on.
    pub const CONTROL: [u8; 8] = *b"MPICNCTL";
    /// The first bytes between a process and a relay, and between two relays.
    pub const RELAY: [u8; 8] = *b"MPICRELY";
    /// The first bytes between a process and the router of its node, and between two routers.
    pub const ROUTER: [u8; 8] = *b"MPICROUT";
    /// The longest proof that follows a greeting, in bytes.
    pub const MAX_PROOF: usize = 512;
    /// Bytes of the proof of the dialling side: the first message of Noise.
    pub const FIRST_PROOF: usize = 96;
    /// Bytes of the proof of the answering side: the second message of Noise.
    pub const SECOND_PROOF: usize = 100;
    /// Bytes of the confirmation: the third message, a record without content.
    pub const CONFIRMATION: usize = 16;

    layout! {
        /// A greeting, either way.
        head, 32, "the proof";
        0 MAGIC "8 bytes" "magic: `MPICONN1` between jobs, `MPICNSRV` between a client and a naming server, `MPICNCTL` for an operator's commands, `MPICRELY` to a relay, `MPICROUT` to a router";
        8 VERSION "u16" "version of what the sender speaks";
        10 STATUS "u16" "status; of the dialling side 0";
        12 FLAGS "u32" "flags";
        16 PROOF "u32" "length of the proof that follows: 96 of the dialling side; 100 in a good answer, else 0";
        20 KEY "8 bytes" "identifier of the key that the proof is made with; in a refusal, that of the key of this side";
        28 RESERVED "u32" "reserved, 0";
    }

    numbers! {
        /// Flags of a greeting.
        FLAGS: u32, ["flag", "name", "meaning"];
        1 WANTS "the connection is to be encrypted";
        2 REFUSES "it must not be encrypted";
        4 AES "this machine computes AES-GCM in hardware";
    }

    numbers! {
        /// The status of an answer. The answering side closes after each but 0 and 3.
        STATUSES: u16, ["status", "name", "meaning"];
        0 GOOD "good: the proof follows, and the dialling side's confirmation is awaited";
        1 OTHER_VERSION "the greeting is of another version";
        2 UNKNOWN_FLAGS "it has a flag that this side does not know";
        3 OTHER_KEY "this side has no key with that identifier: one more greeting may follow";
        4 WRONG_PROOF "the proof was not made with the key of that identifier";
        5 ENCRYPTION "one side wants encryption, and the other refuses it";
    }

    layout! {
        /// What the answering side has decided: the content of the second message of Noise.
        decision, 4, "nothing more";
        0 CIPHER "u8" "how the content of the connection is protected";
        1 RESERVED "3 bytes" "reserved, 0";
    }

    numbers! {
        /// How the content of a connection is protected.
        CIPHERS: u8, ["number", "name", "meaning"];
        0 PLAIN "it is not; the confirmation is a record of ChaCha20-Poly1305";
        1 AES_256_GCM "by records of AES-256-GCM";
        2 CHACHA20_POLY1305 "by records of ChaCha20-Poly1305";
    }
}

/// Records: what an encrypted connection carries.
pub mod record {
    /// The most bytes of content of one record.
    pub const MAX_CONTENT: usize = 64 << 10;
    /// Bytes of the tag of a record.
    pub const TAG: usize = 16;
    /// After this number of records, a direction goes on with a new key.
    pub const REKEY: u64 = 1 << 22;

    layout! {
        /// A record.
        head, 4, "the content, encrypted, and its tag";
        0 LEN "u32" "bytes that follow: 1 to 65,536 of content, and 16 of the tag";
    }
}

/// HELLO and HELLO-ACK: the first message of either side on a new connection.
pub mod hello {
    /// The first bytes of HELLO and HELLO-ACK.
    pub const MAGIC: [u8; 8] = *b"MPICONN1";
    /// The version of the protocol. The answer to a HELLO of another version is [`OTHER_VERSION`].
    pub const VERSION: u16 = 12;

    layout! {
        /// The head of a HELLO.
        said, 84, "nothing more";
        0 MAGIC "8 bytes" "magic, `MPICONN1`";
        8 VERSION "u16" "version, 12";
        10 MOVES "u16" "0, or why the pair moves to this lane from one that lives";
        12 LEAVES "u16" "generation of the lane that the pair leaves; 0 if it moves from none";
        14 RESERVED "u16" "reserved, 0";
        16 SOURCE "u64" "incarnation of the source";
        24 DEST "u64" "incarnation of the destination";
        32 SOURCE_RANK "u32" "rank of the source";
        36 DEST_RANK "u32" "rank of the destination";
        40 COOKIE "16 bytes" "cookie of the destination's group";
        56 PROCESS "16 bytes" "process number of the source: a hash of its public key";
        72 GENERATION "u16" "generation offered";
        74 STRIPE "u16" "stripe: 0, or the number of a further connection";
        76 RECEIVED "u64" "received up to";
    }

    layout! {
        /// The head of a HELLO-ACK.
        answered, 40, "nothing more";
        0 MAGIC "8 bytes" "magic, `MPICONN1`";
        8 STATUS "u16" "status";
        10 GENERATION "u16" "generation; with status 3, the version that the answering side speaks";
        12 RESERVED "u32" "reserved, 0";
        16 PROCESS "16 bytes" "process number of the answering process";
        32 RECEIVED "u64" "received up to";
    }

    numbers! {
        /// Why a pair moves from one lane to another.
        MOVES: u16, ["number", "name", "meaning"];
        1 BETTER "the new lane's transport is better than the one in use";
        2 ORDERED "an operator wants this transport for the pair";
        3 FREED "an operator wants the best transport for the pair again";
    }

    numbers! {
        /// The answers to a HELLO.
        STATUSES: u16, ["status", "name", "meaning"];
        0 GOOD "good";
        1 BAD_COOKIE "the cookie is not that of the group";
        2 NO_SUCH_PROCESS "there is no such process here";
        3 OTHER_VERSION "the HELLO is of another version";
        4 BETTER_CONNECTION "this pair has a better connection";
        5 LATER "there is no place for one who is not known yet: come again";
    }
}

/// Frames: all that travels on a lane after the handshake.
pub mod frame {
    /// The longest payload of a frame, in bytes.
    pub const MAX_PAYLOAD: usize = 1 << 20;
    /// `a` of the SWITCH of a process that gives up its lanes and comes back by itself: no generation follows.
    pub const AWAY: u64 = 1 << 16;
    /// `a` of the SWITCH that answers it.
    pub const HEARD: u64 = AWAY + 1;
    /// In `a` of a BULK: the operation is the sender's.
    pub const OF_SENDER: u64 = 1 << 63;
    /// The most connections of one lane. Their numbers are below this.
    pub const MAX_STRIPES: u16 = 16;

    layout! {
        /// The header of each frame.
        header, 48, "what follows";
        0 LEN "u32" "len: bytes that follow the header, at most 1 MiB";
        4 KIND "u8" "kind";
        5 FLAGS "u8" "flags";
        6 GENERATION "u16" "generation of the lane: frames of an older one than the path accepts are dropped";
        8 SOURCE "u64" "incarnation of the source";
        16 DEST "u64" "incarnation of the destination";
        24 SOURCE_RANK "u32" "rank of the source";
        28 DEST_RANK "u32" "rank of the destination";
        32 A "u64" "a";
        40 B "u64" "b";
    }

    numbers! {
        /// Bits of a frame's flags.
        FLAGS: u8, ["flag", "name", "meaning"];
        1 ACK_NOW "acknowledge at once";
    }

    numbers! {
        /// Kinds of frames. 5 and 9 are kinds of slots in shared memory only ([`shared::SEQUENCE`](super::shared::SEQUENCE), [`shared::PART`](super::shared::PART)).
        KINDS: u8, ["kind", "name", "a", "b", "what follows"];
        1 MSG "sequence, from 1" "acknowledged up to" "one message (first class)";
        2 ACK "0" "acknowledged up to" "nothing";
        3 BULK "receiver's operation; with the highest bit (OF_SENDER), the sender's" "offset" "data (second class)";
        4 SWITCH "generation of the next lane, or of this one; 65,536; 65,537" "0" "nothing: the last frame on this lane; with this lane's own generation, the end of a move";
        6 LOST "number of a further connection" "0" "nothing; of TCP lanes alone, see there";
        7 PING "number of the question, from 1" "acknowledged up to" "nothing";
        8 PONG "number of the question" "acknowledged up to" "nothing";
    }
}

/// Contact records: how a process can be reached.
pub mod contact {
    /// The version of contact records.
    pub const RECORD: u8 = 1;
    /// The most transports in one record.
    pub const MAX_ENTRIES: usize = 16;
    /// The longest entry of one transport, in bytes.
    pub const MAX_ENTRY: usize = 1024;

    layout! {
        /// The head of a contact record.
        head, 34, "the entries, in the order of the process's own preference";
        0 RECORD "u8" "version of the record, 1";
        1 PROCESS "16 bytes" "process number; 0 if unknown, in names of ports alone";
        17 HOST "16 bytes" "host number: equal for processes that share a kernel and a network namespace; 0 if unknown";
        33 COUNT "u8" "how many entries follow, at most 16";
    }

    layout! {
        /// The head of each entry.
        entry, 3, "the entry";
        0 TRANSPORT "u8" "number of the transport";
        1 LEN "u16" "bytes of its entry, at most 1,024";
    }

    numbers! {
        /// How a record stands among those of a group.
        FORMS: u8, ["number", "name", "what follows"];
        0 WHOLE "the record";
        1 LIKE "process number 16 bytes; how many differences u8; of each its offset in the record u16, not before the host number, its bytes u8, and these. All else is as in the record before, which is as long";
        2 ROOTED "in place of all records: the root of their tree 16 bytes; rank of the leader u32; its record";
    }
    /// Among the records of a group the first of so many is whole. They are a range.
    pub const WHOLE_EACH: u32 = 32;
    /// Bytes of a hash of the tree over the records of a group.
    pub const HASH: usize = 16;
    /// The most hashes of a branch: those of the largest group that can be joined.
    pub const MAX_BRANCH: u8 = 15;

    numbers! {
        /// What stands before the bytes of which a hash is made.
        HASHES: u8, ["number", "name", "what is hashed"];
        0 LEAF "the records of a range";
        1 NODE "the two hashes below, the left one first";
        2 ROOT "the number of ranks u32, and the hash at the top";
    }
}

/// The numbers of transports, in contact records.
pub mod transport {
    /// Transports from this number on are on trial: they are used only where `MPI_CONNECT_LANES` names them.
    pub const ON_TRIAL: u8 = 128;

    numbers! {
        /// Transports, and what their entries in contact records are.
        TRANSPORTS: u8, ["number", "name", "its entry"];
        1 SHM "nothing: the process number is the address";
        2 TCP "addresses, at most 32";
        3 VERBS "a number (u8) of ports of RDMA devices, at most 8, these ports (below), then the addresses of the set-up, at most 32";
        4 RELAY "addresses of relays at which the process waits, at most 8; its process number is what it waits under";
        5 ROUTER "addresses of the router of its node, at most 32; the process number is what it is known by there";
        200 TOY "nothing; of pipes within one process, for tests alone";
    }
}

/// RDMA devices: how two processes set up a queue pair, and the messages on it. Frames travel as a stream of bytes in messages.
pub mod rdma {
    /// The version of the set-up and of the messages.
    pub const RDMA: u8 = 3;
    /// The most ports in an entry.
    pub const MAX_PORTS: usize = 8;
    /// The longest message, with its head, in bytes.
    pub const SLOT: usize = 8 << 10;
    /// What the dialling side says when its queue pair stands too.
    pub const STANDS: u8 = 1;
    /// The most pieces of memory that one READ_THIS tells of.
    pub const MAX_PIECES: usize = 4;
    /// The most READ_THIS of one direction that are not answered by READ_DONE.
    pub const MAX_READS: usize = 8;
    /// The words of 8 bytes at the beginning of a message of which some may be left out.
    pub const WORDS: usize = 31;
    /// The same of the body of a NEXT_MSG.
    pub const BODY_WORDS: usize = 16;
    /// How many GIVE_BACK may be under way in one direction beside what credits allow.
    pub const RESERVE: u16 = 4;

    layout! {
        /// A port of an RDMA device, in an entry.
        port, 19, "the next port, or the addresses";
        0 KIND "u8" "how it is addressed";
        1 LID "u16" "LID, or 0";
        3 GID "16 bytes" "GID";
    }

    numbers! {
        /// How a port is addressed.
        KINDS: u8, ["number", "name", "meaning"];
        1 BY_LID "by its LID: InfiniBand";
        2 BY_GID "by its GID: Ethernet (`RoCE`)";
    }

    layout! {
        /// The queue pair of one side.
        pair, 40, "nothing more; of the dialling side one byte, 1, once it has connected its queue pair";
        0 RDMA "u8" "version, 3";
        1 PORT "u8" "of the dialling side: the number of the port of the other's entry that it means; else 0";
        2 LID "u16" "LID of the sender's port, or 0";
        4 NUMBER "u32" "number of the queue pair";
        8 SEQUENCE "u32" "number of its first packet, below 2^24";
        12 CREDITS "u16" "messages that the other side may send before any is given back";
        14 READS "u8" "RDMA reads that it answers at a time";
        15 MTU "u8" "the longest packet of the port: 1 to 5, for 256 to 4096 bytes";
        16 SLOT "u32" "bytes of the longest message, 8192";
        20 WRITES "u8" "1 if it takes RDMA writes, else 0";
        21 RESERVED "3 bytes" "reserved, 0";
        24 GID "16 bytes" "GID of the sender's port";
    }

    layout! {
        /// The head of each message.
        message, 8, "what the kind says";
        0 KIND "u8" "kind";
        1 CHUNKS "u8" "chunks of the sender's room that were read: they may be written again";
        2 GIVEN "u16" "messages of the receiver's that were consumed: it may send as many more";
        4 NUMBER "u32" "READ_THIS: its number; BYTES: the words that are left out, a bit each; NEXT_MSG: the same in its lower half, in the upper how many more sequences are acknowledged than by the MSG before; else 0";
    }

    numbers! {
        /// Kinds of messages.
        MESSAGES: u8, ["kind", "name", "what follows", "meaning"];
        1 BYTES "bytes" "the next bytes of the stream of frames";
        2 GIVE_BACK "nothing" "the numbers of the head alone; it needs no credit itself";
        3 READ_THIS "the header of a BULK frame, then 1 to 4 pieces" "read the frame's data from my memory";
        4 READ_DONE "numbers, u32 each" "these READ_THIS are read";
        5 MAKE_ROOM "nothing" "make room for RDMA writes";
        6 ROOM "the room" "write here";
        7 WRITTEN "the header of a BULK frame, and which part of it" "the next chunk of your room has this part of the frame";
        8 FIRST_MSG "the numbers of a MSG frame, then its body" "a MSG frame";
        9 NEXT_MSG "the body of a MSG frame" "the MSG frame with the next sequence";
    }

    layout! {
        /// The numbers of a MSG that is a message of its own.
        first_msg, 16, "the body";
        0 SEQUENCE "u64" "its sequence";
        8 ACKNOWLEDGED "u64" "the sequence up to which the sender has received";
    }

    layout! {
        /// A room for RDMA writes.
        room, 20, "nothing more";
        0 ADDRESS "u64" "address of the first chunk; the others are behind it";
        8 KEY "u32" "remote key";
        12 CHUNK "u32" "bytes of a chunk";
        16 CHUNKS "u32" "number of chunks, at most 255; 0: there is no room";
    }

    layout! {
        /// A part of a frame that was written.
        written, 56, "nothing more";
        0 HEADER "48 bytes" "the header of the BULK frame";
        48 OFFSET "u32" "where the part begins in the frame's data";
        52 LEN "u32" "its bytes, at least 1";
    }

    layout! {
        /// A piece of memory.
        piece, 16, "the next piece";
        0 ADDRESS "u64" "address";
        8 LEN "u32" "bytes";
        12 KEY "u32" "remote key";
    }
}

/// IP addresses, in the entries of TCP and in the names of ports.
pub mod address {
    /// The most addresses of one process.
    pub const MAX_ADDRESSES: usize = 32;

    numbers! {
        /// First byte of an address.
        FAMILIES: u8, ["family", "name", "what follows"];
        4 V4 "address (4 bytes), port u16";
        6 V6 "address (16 bytes); in an entry of TCP the scope u32, 0 unless link-local; port u16";
        7 V6_SCOPED "in names of ports alone: address (16 bytes), scope u32, port u16";
    }
}

/// Messages: the bodies of MSG frames.
pub mod message {
    /// The longest note, in bytes.
    pub const MAX_NOTE: usize = 512;
    /// The longest text of a TELL, in bytes.
    pub const MAX_TOLD: usize = 1024;
    /// The most pieces of memory that an RTS describes.
    pub const MOST_DESCRIBED: usize = 64;
    /// Bytes of one description: the address and the length of a piece.
    pub const PIECE: usize = 16;
    /// Where the sizes begin of which a DONE tells, in bytes; each is twice the one before.
    pub const READ_FROM: u64 = 16 << 10;
    /// How many there are.
    pub const READ_SIZES: usize = 5;
    /// The last one. No longer message goes eager.
    pub const READ_UP_TO: u64 = READ_FROM << (READ_SIZES - 1);
    /// In their place: the message came before its receive.
    pub const CAME_EARLY: u8 = 128;

    numbers! {
        /// The credit of a sender at first: what it may send that the receiver has not given back.
        CREDIT_AT_FIRST: u64, ["number", "name", "of what"];
        1024 ENVELOPES "envelopes";
        1048576 EAGER_BYTES "bytes of eager data";
    }

    numbers! {
        /// First byte of a message.
        TYPES: u8, ["type", "name", "fields after the type byte", "meaning"];
        1 EAGER "as below, then the note, if there is one, then the data" "a whole small message";
        2 RTS "as below, then size u64, then begun u64, if BEGUN says so, then the note, if there is one, then, if the sender likes, where the data lies: address u64 and length u64 of each piece, or the address alone (IN_ONE)" "a message that waits at the sender";
        3 CTS "operation u64 (sender's), operation u64 (receiver's), offset u64, length u64" "send me this range";
        4 DONE "operation u64 (sender's), sizes u8" "matched, and all that was wanted is here; of which sizes reading is sooner";
        5 CREDIT "envelopes u64, bytes u64" "you may have sent so much, in all, since the path began";
        6 REVOKED "context 2 × u64, operation u64 (receiver's, or 0)" "this inter-communicator does not exist here (any more): said once per pair; in answer to a CTS: the operation that asked";
        7 CONTROL "bytes" "set-up between leaders, see below";
        8 BYE "" "this process has done with this pair: nothing follows";
        9 ASK "" "are you alive, and what do you wait for?";
        10 TELL "text, at most 1024 bytes" "the answer, for people";
        11 RTR "operation u64 (sender's), operation u64 (receiver's), offset u64, length u64, then address u64 and length u64 of each piece" "write this range of the data to these places in my memory; without pieces: it has no place any more";
        12 ATP "operation u64 (receiver's), done u8" "in answer to an RTR: it is written (1), or will not be (0)";
    }

    layout! {
        /// The head of EAGER and RTS.
        head, 38, "the rest of the message";
        0 TYPE "u8" "type";
        1 FLAGS "u8" "flags";
        2 TAG "i64" "tag";
        10 SOURCE "u32" "rank of the source";
        14 CONTEXT "2 × u64" "context: lineage and number";
        30 OP "u64" "operation; of an EAGER it may be 0 if nobody is to be told";
    }

    numbers! {
        /// Bits of the flags of EAGER and RTS.
        FLAGS: u8, ["flag", "name", "meaning"];
        1 NOTIFY "tell me when matched; of an EAGER alone";
        2 NOTED "there is a note: its length u16, 1 to 512, and as many bytes";
        4 MAY_BUFFER "of an RTS alone, of 16 to 256 KiB and with pieces: it could have gone eager, and its data may be read before its receive";
        8 IN_ONE "of an RTS alone: its data lies in one piece, of which the address follows and no length; a list of one piece is malformed";
        16 BEGUN "of an RTS alone, without pieces: so many first bytes of its data, less than all, follow at once as BULK with OF_SENDER";
    }

    /// Notes: the types of a message's data, which `MPI_CONNECT_CHECK=types` compares.
    pub mod note {
        numbers! {
            /// Numbers of the hash, which is a sum of codes times powers of the base.
            HASH: u64, ["number", "name", "what"];
            0x1fff_ffff_ffff_ffff MODULUS "2^61 - 1: the sum is modulo this";
            0x0a3b_19c4_7e5d_2f81 BASE "B";
        }

        layout! {
            /// The head of a note.
            head, 33, "text: the types as a user reads them, printable ASCII";
            0 ANY "u8" "1 if the types are not known or MPI_PACKED: then nothing is compared; else 0";
            1 COUNT "u64" "number of values";
            9 HASH "u64" "hash of their codes";
            17 FIRST "u64" "code of the first value";
            25 TIMES "u64" "how often the text stands";
        }

        numbers! {
            /// Classes of values. A value's code is 256 times its class, plus its bytes at the sender.
            CLASSES: u8, ["class", "name"];
            1 BYTE;
            2 CHARACTER;
            3 SIGNED;
            4 UNSIGNED;
            5 FLOAT;
            6 BRAIN_FLOAT;
            7 LONG_DOUBLE;
            8 COMPLEX;
            9 LONG_DOUBLE_COMPLEX;
            10 LOGICAL;
            11 WIDE_CHARACTER;
        }
    }
}

/// Tags. Those of the user are 0 to 2^31-1, those below 0 are the library's own. A receive for any tag matches none of
/// the library's.
pub mod tag {
    /// The largest tag of a user. It is also the mask of a user's tag within the tag of a partitioned operation.
    pub const LAST_OF_USER: i64 = i32::MAX as i64;
    /// The bits that a user's tag takes.
    pub const USER_BITS: u32 = 31;

    numbers! {
        /// The library's own tags.
        TAGS: i64, ["tag", "name", "what has it"];
        -1 LEADERS "rank 0 of each side to rank 0 of the other, while a communicator is created";
        -2 BCAST "the data of MPI_Bcast";
        -3 BARRIER "MPI_Barrier";
        -256 LAST_RESERVED "nothing yet, as those between";
        -257 FIRST_PARTITIONED "partitioned operations, and all below";
    }
}

/// Context ids: the numbers of inter-communicators.
pub mod context {
    /// The number of the context between two groups that are connected only once, through a port or over a socket.
    pub const ONLY: u64 = 1;

    numbers! {
        /// Numbers of the mixer that makes lineages.
        MIXER: u64, ["number", "name", "what"];
        0x9e37_79b9_7f4a_7c15 MIX_ADD "added first";
        0xd6e8_feb8_6659_fd93 MIX_FIRST "the first factor";
        0xa076_1d64_78bd_642f MIX_SECOND "the second factor";
    }

    layout! {
        /// One process of a side when an inter-communicator is split, in order of rank.
        part, 12, "the next process";
        0 COLOR "u64" "color; all bits set: nowhere";
        8 KEY "u32" "key";
    }

    /// The color of a process that is in none of the new inter-communicators (MPI_UNDEFINED).
    pub const NOWHERE: u64 = u64::MAX;
}

/// CONTROL messages: what leaders say to each other.
pub mod control {
    /// The longest name of a job, in bytes.
    pub const MAX_NAME: usize = 255;
    /// The longest contact records of one group, all together, in bytes.
    pub const MAX_RECORDS: usize = 64 << 20;
    /// The longest frame that a port accepts of a stranger, in bytes. A longer offer is sent in parts.
    pub const MAX_CALLER_FRAME: usize = 320 << 10;

    numbers! {
        /// First byte of a CONTROL message.
        KINDS: u8, ["kind", "name", "fields after the kind", "meaning"];
        1 OFFER "offer u64 (counted per pair), a party, name looked for (length u32, at most 255 bytes), records of the members (length u32, at most 64 MiB; what this message has no room for comes as PART)" "this group is to be joined with the other";
        2 ACCEPT "offer u64 (the decider's), offer u64 (the other's), context u64" "the two meet";
        3 WITHDRAW "offer u64" "the sender gave up waiting";
        4 WITHDRAWN "offer u64" "the decider has not accepted it, and will not";
        5 PART "offer u64, bytes" "a continuation of the records of an offer";
        6 LOOKING "u8 (1 if somebody has registered the name, else 0), name (length u32, at most 255 bytes)" "the sender holds an offer of the other side, and waits for this other job at present";
        7 MOVED "contact record" "the sender is reached so from now on; between any two processes";
        8 CHECKPOINT "bytes: see Checkpoints" "what two processes tell each other of checkpoints; between any two processes";
        9 ASK_RANGE "incarnation u64, number of the range u32" "the records of this range of the group are asked for: of its leader, or of a process of the sender's own group";
        10 RANGE "incarnation u64, number of the range u32; then nothing, or how many hashes u8, at most 15, these, 16 bytes each, and the records of the range" "the answer; nothing: they cannot be had here";
    }

    layout! {
        /// The party of an offer: the group that offers.
        party, 60, "name of the job (length u32, at most 255 bytes)";
        0 INCARNATION "u64" "incarnation of the group that is to be joined";
        8 COOKIE "16 bytes" "its cookie";
        24 SIZE "u32" "its size";
        28 TAG_UB "u32" "largest tag";
        32 REPRESENTATION "u32" "representation: see Data of other machines";
        36 REGISTERED "u64" "incarnation under which the same processes have a name and make checkpoints; 0: none";
        44 REGISTERED_COOKIE "16 bytes" "the cookie of that incarnation; zeros where there is none";
    }
}

/// Lanes of shared memory.
pub mod shared {
    /// The version of the layout of slot rings, payload rings and doorbells.
    pub const LAYOUT: u16 = 7;
    /// The beginning of the name of a process's socket. Its process number follows, as 32 hexadecimal digits.
    pub const SOCKET: &str = "mpi_connect-";

    layout! {
        /// The tail that follows a HELLO and a HELLO-ACK.
        tail, 24, "nothing more";
        0 LAYOUT "u16" "layout, 7";
        2 FLAGS "u16" "flags";
        4 BIT "u32" "bit: this lane's, on the sender's doorbells, 0 to 63";
        8 ADDRESS "u64" "address of a word of the sender's memory";
        16 VALUE "u64" "its value";
    }

    numbers! {
        /// Bits of a tail's flags.
        FLAGS: u16, ["flag", "name", "meaning"];
        1 READS "I can read your memory, since I have read that word; only in the answer";
        2 FENCES "I take part in fences for several processes, and fence so whenever I begin to sleep or no longer look at a lane by myself";
    }

    numbers! {
        /// The one byte of the dialling side's last word.
        LAST_WORD: u8, ["number", "name", "meaning"];
        2 READY "the lane stands";
        1 READY_READS "added to it: I can read your memory";
    }

    /// The slots of each direction of a lane.
    pub const SLOTS: u64 = 256;
    /// Bytes of one slot.
    pub const SLOT: usize = 320;
    /// Bytes of the payload ring of each direction.
    pub const ROOM: usize = 2 << 20;
    /// The bit of an index that says that the consumer keeps a piece of the payload ring.
    pub const KEPT: u32 = 63;
    /// The bit from which on a count of returned pieces says where the last of them is.
    pub const LAST: u32 = 48;
    /// The unit of places in the payload ring, in bytes.
    pub const UNIT: usize = 64;
    /// The body of a MSG begins so many bytes behind its place there: its head ends at a unit's end, and the data begin with one.
    pub const LEAD: usize = (UNIT - super::message::head::BYTES % UNIT) % UNIT;

    numbers! {
        /// Offsets in the memory of a lane, in bytes.
        LANE: usize, ["offset", "name", "what"];
        128 INDEX "index of the dialling side's direction: how many slots its receiver has consumed, u64; with bit 63 it keeps the room of the last body of a MSG among them, for a body of its own";
        136 RETURNED "how many bodies that receiver has written to room that it kept, modulo 2^48, u64; from bit 48 on where the last of these is, in the same units as a slot's";
        256 DIRECT "whether that receiver looks by itself (0: no), u64";
        384 OTHER_INDEX "index of the other direction";
        392 OTHER_RETURNED "the same for its receiver";
        512 OTHER_DIRECT "whether its receiver looks by itself";
        4096 SLOTS_AT "256 slots of 320 bytes for the dialling side's direction, then as many for the other; then the room of the first, 2 MiB for bodies that are too long for a slot, and that of the other";
        4362240 LANE_END "the end";
    }

    numbers! {
        /// Offsets in the doorbells of a process, in bytes.
        BOARD: usize, ["offset", "name", "what"];
        128 ASLEEP "u64, not 0 while the process sleeps";
        256 BITS_AT "64 bits: one for each lane on which something is; lanes may share one";
        2048 LIVES "a robust mutex of the process's C library, which a thread of it holds until that or the process ends; its first 32 bits are a futex, from whose change others see that. 0: nothing is said";
        4096 DOORBELLS_END "the end";
    }

    /// The bits of a doorbell bitmap.
    pub const DOORBELLS: u32 = 64;

    numbers! {
        /// The fields of a slot's word, by their lowest bits. Each ends where the next begins.
        WORD: u32, ["bit", "field", "meaning"];
        0 LEN "length of the body";
        21 FIELDS "how many fields";
        23 FAR "the body lies in room for bodies";
        24 TAG "kind";
        32 START "where there, in units of 64 bytes from the begin of the dialling side's: in the direction's own room, or in that of the other direction where its receiver keeps it; the body of a MSG, and that of a PART, begins 26 bytes behind that place";
        48 LAP "how often the ring of slots has been filled, from 1, modulo 65,536";
    }

    numbers! {
        /// Kinds of slots, in addition to those of frames.
        KINDS: u8, ["kind", "name", "fields", "meaning"];
        5 SEQUENCE "a" "the sequence of the MSG that follows";
        9 PART "length of the whole body" "the body is the first part of that of the MSG that follows, which lies at the same place; it may be passed over";
        16 ACK_NOW "" "added to the kind of a frame: acknowledge at once";
        255 QUESTION "" "the sender has no room, and is to be told when all before this is consumed";
    }
}

/// The ports of MPI_Open_port, and MPI_Comm_join.
pub mod port {
    /// The beginning of the name of a port.
    pub const PREFIX: &str = "mpic:";
    /// The longest name of a port, in characters. It fits where MPI_MAX_PORT_NAME is 256.
    pub const MAX_PORT_NAME: usize = 255;
    /// The beginning of the name of a dial request: a record in the naming service that asks a port to dial back.
    pub const CALL: &str = "call:";

    layout! {
        /// The short form of a port's name, before it is encoded as text; the long form begins with it.
        short, 22, "nothing more";
        0 TOKEN "14 bytes" "token: random";
        14 ADDRESS "4 bytes" "IPv4 address; in the long form zeros if there is none";
        18 PORT "u16" "port";
        20 CHECK "u16" "check; inverted in the long form";
    }

    layout! {
        /// What the long form of a port's name has behind the short one, encoded by itself.
        long, 32, "addresses, then the check u16";
        0 PROCESS "16 bytes" "process number";
        16 HOST "16 bytes" "host number";
    }

    /// The first bytes that each side writes to the socket of MPI_Comm_join.
    pub const JOIN_MAGIC: [u8; 8] = *b"MPICJOI1";
    /// The most bytes that each side writes to that socket, without the magic and the length.
    pub const MAX_JOIN: usize = 8 << 10;

    layout! {
        /// The message of each side over the socket of MPI_Comm_join.
        join, 20, "the rest of the party, and the record of the process (length u32)";
        0 MAGIC "8 bytes" "magic, `MPICJOI1`";
        8 LEN "u32" "bytes that follow, at most 8 KiB";
        12 CONTEXT "u64" "context: the number 1";
    }
}

/// An operator's commands to the processes of a job, and their answers.
pub mod operator {
    /// The version of this protocol.
    pub const VERSION: u16 = 3;
    /// The longest request, in bytes: it may have the contact records of the largest group, and a little.
    pub const MAX_REQUEST: usize = 68 << 20;
    /// The longest answer, in bytes.
    pub const MAX_ANSWER: usize = 16 << 20;
    /// The longest word for a transport, in bytes.
    pub const MAX_WORD: usize = 16;
    /// The longest text for people, in bytes.
    pub const MAX_WORDS: usize = 512;
    /// The most pairs in the report of one process.
    pub const MAX_LINES: usize = 256;
    /// The most other jobs in the report of one process.
    pub const MAX_JOBS: usize = 64;
    /// The most waits in the report of one process, and the most processes that one wait is for.
    pub const MAX_WAITS: usize = 8;
    /// A rank or a round trip that is not given.
    pub const NONE: u32 = u32::MAX;

    layout! {
        /// A request or an answer.
        message, 4, "as many bytes";
        0 LEN "u32" "length: of a request at most 68 MiB, of an answer 16 MiB";
    }

    layout! {
        /// The head of a request.
        request, 28, "the addressee, the command, then the processes that it is passed on to: how many u32, and of each its rank u32 and its contact record";
        0 ID "16 bytes" "the number of the command, random: it is done once, however often it comes";
        16 SERIAL "u64" "the order in which the leader gives commands that change something, from 1; of an operator 0";
        24 LIMIT "u32" "milliseconds within which the answer is wanted";
    }

    numbers! {
        /// Who is addressed.
        ADDRESSEES: u8, ["number", "name", "fields behind the number", "meaning"];
        0 NAMED "name (length u32, at most 255 bytes)" "the leader of the job with this name, who passes the command on to all";
        1 MEMBER "incarnation u64, rank u32" "one process of the job: for SUM, LEFT and FILES";
        2 PASSED "incarnation u64, rank u32, secret 16 bytes" "one process of the job, told by another one of it: for the other commands";
    }

    numbers! {
        /// What is to be done. A word is a transport's, with its length u32, at most 16 bytes.
        COMMANDS: u8, ["number", "name", "fields behind the number", "meaning"];
        0 LANES "" "report all figures";
        1 SWITCH "word, name of the other job (length u32; empty: all), rank u32, rank u32 there (all bits set: all)" "move pairs to this transport";
        2 HOLD "" "leave no connection to other jobs";
        3 RESUME "" "connect again";
        4 STOP_USING "word" "use this transport no more, and unload it";
        5 USE "word" "use this transport again";
        6 SUM "rank u32, report" "the figures of a process that has begun to finalize, for the leader";
        7 GIVE_UP "name of the other job (length u32)" "wait no longer for processes of this job that were held, and are gone";
        8 FILES "" "nothing is done: behind a good answer the connection carries the bytes of files (see Files)";
        9 LEFT "rank u32, u8 (1 if a report follows), report" "the process has ended its part in MPI_Finalize, for the leader; and its last figures";
    }

    numbers! {
        /// Answers.
        ANSWERS: u8, ["number", "name", "fields behind the number", "meaning"];
        0 OUTCOMES "u8 (1 if the command had been given before), how many u32, and of each process its rank u32 and its outcome" "what became of the command";
        1 NO_SUCH_JOB "" "this process leads no job of that name, or is not that process";
        2 BUSY "" "another command that changes something is under way, and took too long";
        3 MALFORMED "" "the request cannot be read";
    }

    numbers! {
        /// The outcome of one process. A text has its length u32 in front, at most 512 bytes.
        RESULTS: u8, ["number", "name", "fields behind the number", "meaning"];
        0 DONE "text" "it has done that, and perhaps says how";
        1 REPORT "report" "its figures";
        2 REFUSED "text" "it has not done that, and says why";
        3 NOT_ANSWERING "" "it has not answered in time; of a command that changes something it may still be done";
        4 DEAD "text" "there is no such process any more";
        5 OVERTAKEN "" "a later command came first, so this one is not done";
        6 UNDER_WAY "text" "it has begun that, and goes on with it, and perhaps says what it waits for";
        7 NO_PAIR "text" "it has no pair of those that were meant, and perhaps says which it has";
        8 LEFT_JOB "text" "it has left the job as it should, and how";
    }

    layout! {
        /// The head of a report.
        report, 21, "host (length u32, at most 255 bytes), waits, jobs and pairs (each: how many u32, then these), and the number of pairs that are left off, u32";
        0 PID "u32" "number of the process on its host";
        4 AT "u64" "microseconds since the process began to use the library";
        12 WAITED "u64" "microseconds that its calls have waited for other jobs";
        20 HELD "u8" "0: it is not held; 1: it is held; 2: it is about to be, and not all of its connections are closed";
    }

    layout! {
        /// A call that waits.
        wait, 8, "call, and what it waits for (texts), and for whom: how many u32, incarnation u64 and rank u32 of each";
        0 SINCE "u64" "microseconds since it began";
    }

    layout! {
        /// Another job, in a report.
        job, 16, "name (length u32, at most 255 bytes), and how many transports u32; of each word, pairs that use it now u32, and two flows";
        0 INCARNATION "u64" "its incarnation";
        8 WAITED "u64" "microseconds that calls have waited for it";
    }

    layout! {
        /// A pair, in a report.
        pair, 36, "two flows, the transport's word (empty: not connected), and why no better one is used (text)";
        0 INCARNATION "u64" "incarnation of the other job";
        8 RANK "u32" "rank there";
        12 UNEXPECTED "u32" "messages that no receive has matched";
        16 POSTED "u32" "receives that wait for a message from it";
        20 FROM_ANY "u32" "receives that wait for a message from anyone, in inter-communicators of which it is the first process";
        24 ROUND_TRIP "u32" "round trip in microseconds; all bits set: not known";
        28 WAITED "u64" "microseconds that calls have waited for it alone";
    }

    layout! {
        /// A flow: what went in one direction, first from the process, then to it.
        flow, 16, "the next field";
        0 MESSAGES "u64" "messages";
        8 DATA "u64" "bytes of their data";
    }
}

/// What is said to a relay after the greeting.
pub mod relay {
    /// The version of this protocol.
    pub const VERSION: u16 = 1;
    /// The most relays that a process waits at.
    pub const MAX_RELAYS: usize = 8;
    /// The most relays in a row.
    pub const MAX_HOPS: usize = 4;

    layout! {
        /// A request.
        request, 82, "nothing more";
        0 KIND "u8" "what is asked for";
        1 NAME "16 bytes" "of CALL the process number that is wanted; of TAKE the number of the call; else zeros";
        17 COUNT "u8" "of CALL the number of relays that have passed it on, at most 4; else 0";
        18 PASSED "64 bytes" "their process numbers, then zeros";
    }

    numbers! {
        /// What is asked for.
        REQUESTS: u8, ["number", "name", "from", "meaning"];
        1 WAIT "a process" "it can be called from now on, under the process number that it has proved, as long as the connection stands";
        2 CALL "a process, or another relay" "this connection is to be joined to one of that process";
        3 TAKE "a process" "this connection is to be joined to that of the call, which was for this process";
    }

    layout! {
        /// An answer, or news for a process that waits.
        answer, 17, "nothing more; behind STANDS, but of WAIT, all bytes are those of the other side";
        0 STATUS "u8" "what it is";
        1 NUMBER "16 bytes" "of CALLED the number of the call; else zeros";
    }

    numbers! {
        /// What an answer is.
        STATUSES: u8, ["number", "name", "meaning"];
        0 STANDS "it is done; of CALL and TAKE: the connections are joined";
        1 CALLED "news: a process calls. It is taken on a connection of its own";
        2 NOT_THERE "no process waits here under that number, or no call has it";
        3 GONE "it waited here, and its host has closed the connection";
        4 FULL "a limit is reached";
        5 NO_ANSWER "the process, or the next relay, has not answered in time";
    }
}

/// What goes between a process and the router of its node, and between two routers, after the greeting: frames of channels.
pub mod router {
    /// The version of this protocol.
    pub const VERSION: u16 = 3;
    /// How the local name of a router begins; behind it come the user's number and the identifier of the key.
    pub const SOCKET: &str = "mpi-connect-router-";
    /// The most bytes of one DATA.
    pub const MAX_PIECE: usize = 64 << 10;
    /// Bytes that either side of a channel may send before the other has taken any.
    pub const WINDOW: u32 = 1 << 20;

    layout! {
        /// What every frame begins with.
        head, 8, "the body";
        0 CHANNEL "u32" "the number of the channel, on this connection alone: even if the side that dialled it has opened the channel, else odd";
        4 LENGTH "3 bytes" "bytes of the body";
        7 KIND "u8" "what it is";
    }

    numbers! {
        /// What a frame is.
        KINDS: u8, ["number", "name", "body", "meaning"];
        1 OPEN "the process number that is wanted, that of the process which asks, then one address or nothing" "a new channel; the address is that of the other router, or of where the channel comes from. DATA may follow at once";
        2 DATA "1 to 65,536 bytes" "of what the other end says";
        3 CREDIT "u32" "so many bytes were taken: the other end may send as many more";
        4 CLOSE "u8: the reason" "the channel has ended, both ways, behind what was sent before";
    }

    numbers! {
        /// Why a channel has ended.
        REASONS: u8, ["number", "name", "meaning"];
        0 OVER "the other end has closed it";
        1 GONE "its process was connected here, and its host has closed the connection";
        2 NOT_THERE "no such process is connected here";
        3 NO_ROUTER "the other router cannot be reached";
        4 FULL "a limit is reached";
        5 DEAD "its process was connected here, and the kernel of its host says that it has ended";
        6 NOBODY "nobody listens where the other router was, as its host says";
    }

    /// Bytes of the room of each direction between a process and its router, a power of two.
    pub const ROOM: usize = 256 << 10;

    numbers! {
        /// Offsets in the memory that a process and its router share, in bytes.
        PIPES: usize, ["offset", "name", "what"];
        128 WRITTEN "how many bytes the process has written, u64";
        256 READ "how many of the router's it has read, u64";
        384 ASLEEP "not 0 while the router is to ring when it has written, u64";
        448 WAITS "not 0 while it is to ring also when it has read, since there was no room, u64";
        512 OTHERS "the same four words of the router, as far apart";
        4096 ROOMS_AT "the room of what the process writes, then that of what the router writes, 262,144 bytes each: byte n lies at n modulo the size";
        528384 PIPES_END "the end";
    }
}

/// What a process says to the command beside its library to have a job started (MPI_Comm_spawn).
pub mod spawn {
    /// The first byte of a request. Both are of one installation, so there is no other version to speak with.
    pub const VERSION: u8 = 1;
    /// The longest request, in bytes: a little more than a command line of this system may have.
    pub const MAX_SPAWN: usize = 4 << 20;
    /// The longest report, in bytes.
    pub const MAX_REPORT: usize = 4 << 10;
    /// The byte behind the request that says: the end of the socket is no order to end.
    pub const RELEASE: u8 = 1;
}

/// Files: what follows a request with [`operator::FILES`] and its good answer, on the same connection.
pub mod files {
    /// The bytes of each chunk of a file but the last.
    pub const CHUNK_BYTES: u64 = 1 << 20;
    /// The longest path, in bytes.
    pub const MAX_PATH: usize = 4096;
    /// The longest text for people, in bytes.
    pub const MAX_TEXT: usize = 512;
    /// The longest message, in bytes: a chunk with its head.
    pub const MAX_MESSAGE: usize = chunk::BYTES + 1024 * 1024;

    numbers! {
        /// What the side says that wants a file, or has one. A path has its length u32 in front, at most 4,096 bytes.
        ASKS: u8, ["number", "name", "fields behind the number", "meaning"];
        1 READ "path" "this file is to be read; answered by OPENED";
        2 SEND "first u64, step u64" "its chunks are wanted: the first, and each step-th behind it; answered by these, in order, and DONE";
        3 WRITE "path, token 16 bytes, size u64, mode u32, new u8" "this file is to be written; answered by OPENED. Until FINISH its content has a name of its own, which follows from path and token. 0 as new: that has to be there";
        4 PUT "the rest of a chunk" "a chunk of it, answered by WRITTEN";
        5 SYNC "" "what was written is to be on the disk; answered by DONE";
        6 FINISH "path, token 16 bytes" "the file is whole, and gets its name; answered by DONE, also when it has it already";
        7 ABANDON "path, token 16 bytes" "what was written of it is to be removed; answered by DONE";
    }

    numbers! {
        /// What the serving side says.
        ANSWERS: u8, ["number", "name", "fields behind the number", "meaning"];
        1 OPENED "size u64, mode u32, changed i64, inode u64" "the file is open; changed: nanoseconds of its last change since 1970";
        2 CHUNK "the rest of a chunk" "a chunk of it";
        3 WRITTEN "index u64" "this chunk is written";
        4 DONE "" "it is done";
        5 FAILED "reason u8, text (length u32, at most 512 bytes)" "it is not done, for this reason; the connection ends";
    }

    layout! {
        /// A chunk of a file.
        chunk, 13, "the bytes of the chunk: 1 MiB, or what is left of the file";
        0 KIND "u8" "PUT or CHUNK";
        1 INDEX "u64" "which chunk, from 0";
        9 SUM "u32" "CRC-32 of its bytes";
    }

    numbers! {
        /// Why it is not done.
        REASONS: u8, ["number", "name", "meaning"];
        1 NO_SUCH_FILE "there is no such file, or no folder for it";
        2 DENIED "it lies in no folder that is open to others, or the system denies it";
        3 READ_ONLY "the folder is open for reading alone";
        4 NO_SPACE "the disk or a quota is full";
        5 CHANGED "the file has changed since it was opened";
        6 NOT_A_FILE "it is a folder or a device, or the path names no file";
        7 DAMAGED "a chunk does not have its checksum";
        8 IO "the system fails to read or write";
        9 BUSY "too many files move at this moment: come again";
        10 MALFORMED "what was said cannot be read, or comes at a wrong time";
    }
}

/// What a client and a naming server say after the greeting is in docs/naming.md.
pub mod naming {
    /// The version of the protocol between client and server. The head of a greeting is the same in all versions from 5 on.
    pub const VERSION: u16 = 5;
}

/// The data representation of a job: byte order, and the sizes of types that machines do not agree on.
pub mod representation {
    numbers! {
        /// Bits of a representation.
        FLAGS: u32, ["flag", "name", "meaning"];
        1 BIG_ENDIAN "byte order: big-endian";
        2 WCHAR_UNSIGNED "`wchar_t` has no sign";
    }

    numbers! {
        /// The fields of a representation, by their lowest bits. Each has four bits.
        FIELDS: u32, ["bit", "name", "what", "values"];
        4 LONG "size of `long`" "4, 8";
        8 ADDRESS "size of an address (`MPI_AINT`)" "4, 8";
        12 WCHAR "size of `wchar_t`" "1, 2, 4";
        16 BOOL "size of C's `bool`" "1, 2, 4, 8";
        20 INTEGER "size of Fortran's default INTEGER, and LOGICAL" "2, 4, 8";
        24 REAL "size of Fortran's default REAL" "4, 8";
        28 LONG_DOUBLE "format of `long double`" "see the next table";
    }

    numbers! {
        /// Formats of `long double`.
        FORMATS: u32, ["format", "name", "meaning"];
        0 DOUBLE "as `double`";
        1 X87_IN_12 "x87's 80 bits in 12 bytes";
        2 X87_IN_16 "the same in 16";
        3 QUAD "IEEE's of 16 bytes";
        4 PAIR "two doubles";
    }
}

/// All tables, with their names in docs/protocol.md.
pub const TABLES: &[(&str, Table)] = &[
    ("greeting::head", greeting::head::TABLE),
    ("greeting::FLAGS", greeting::FLAGS),
    ("greeting::STATUSES", greeting::STATUSES),
    ("greeting::decision", greeting::decision::TABLE),
    ("greeting::CIPHERS", greeting::CIPHERS),
    ("record::head", record::head::TABLE),
    ("hello::said", hello::said::TABLE),
    ("hello::answered", hello::answered::TABLE),
    ("hello::MOVES", hello::MOVES),
    ("hello::STATUSES", hello::STATUSES),
    ("frame::header", frame::header::TABLE),
    ("frame::FLAGS", frame::FLAGS),
    ("frame::KINDS", frame::KINDS),
    ("contact::head", contact::head::TABLE),
    ("contact::entry", contact::entry::TABLE),
    ("contact::FORMS", contact::FORMS),
    ("contact::HASHES", contact::HASHES),
    ("transport::TRANSPORTS", transport::TRANSPORTS),
    ("rdma::port", rdma::port::TABLE),
    ("rdma::KINDS", rdma::KINDS),
    ("rdma::pair", rdma::pair::TABLE),
    ("rdma::message", rdma::message::TABLE),
    ("rdma::MESSAGES", rdma::MESSAGES),
    ("rdma::piece", rdma::piece::TABLE),
    ("rdma::room", rdma::room::TABLE),
    ("rdma::written", rdma::written::TABLE),
    ("rdma::first_msg", rdma::first_msg::TABLE),
    ("address::FAMILIES", address::FAMILIES),
    ("message::TYPES", message::TYPES),
    ("message::CREDIT_AT_FIRST", message::CREDIT_AT_FIRST),
    ("message::head", message::head::TABLE),
    ("message::FLAGS", message::FLAGS),
    ("message::note::head", message::note::head::TABLE),
    ("message::note::HASH", message::note::HASH),
    ("message::note::CLASSES", message::note::CLASSES),
    ("tag::TAGS", tag::TAGS),
    ("context::MIXER", context::MIXER),
    ("context::part", context::part::TABLE),
    ("control::KINDS", control::KINDS),
    ("control::party", control::party::TABLE),
    ("shared::tail", shared::tail::TABLE),
    ("shared::FLAGS", shared::FLAGS),
    ("shared::LAST_WORD", shared::LAST_WORD),
    ("shared::LANE", shared::LANE),
    ("shared::BOARD", shared::BOARD),
    ("shared::WORD", shared::WORD),
    ("shared::KINDS", shared::KINDS),
    ("port::short", port::short::TABLE),
    ("port::long", port::long::TABLE),
    ("port::join", port::join::TABLE),
    ("operator::message", operator::message::TABLE),
    ("operator::request", operator::request::TABLE),
    ("operator::ADDRESSEES", operator::ADDRESSEES),
    ("operator::COMMANDS", operator::COMMANDS),
    ("operator::ANSWERS", operator::ANSWERS),
    ("operator::RESULTS", operator::RESULTS),
    ("operator::report", operator::report::TABLE),
    ("operator::wait", operator::wait::TABLE),
    ("operator::job", operator::job::TABLE),
    ("operator::pair", operator::pair::TABLE),
    ("operator::flow", operator::flow::TABLE),
    ("files::ASKS", files::ASKS),
    ("files::ANSWERS", files::ANSWERS),
    ("files::chunk", files::chunk::TABLE),
    ("files::REASONS", files::REASONS),
    ("relay::request", relay::request::TABLE),
    ("relay::REQUESTS", relay::REQUESTS),
    ("relay::answer", relay::answer::TABLE),
    ("relay::STATUSES", relay::STATUSES),
    ("router::head", router::head::TABLE),
    ("router::KINDS", router::KINDS),
    ("router::REASONS", router::REASONS),
    ("router::PIPES", router::PIPES),
    ("representation::FLAGS", representation::FLAGS),
    ("representation::FIELDS", representation::FIELDS),
    ("representation::FORMATS", representation::FORMATS),
];

#[cfg(test)]
mod tests;
