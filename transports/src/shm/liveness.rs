//! Whether a process lives, as a word of its doorbells says: a robust mutex (pthread_mutexattr_setrobust(3)) that a thread of the process holds
//! until it ends. When the process is killed, exits or begins another program, the kernel marks that mutex before it gives memory or
//! pid away. So who has read the memory of a pid, and then finds the mutex as it was, has read that process's memory.
//!
//! `hello` makes both sides of it, and `peek` asks. Invariant: a process that has ended does not look alive, unless a process of the same user has
//! written to its doorbells what no process of ours writes. One that lives may look as if it had ended, or say nothing at all, as where the
//! C library or the kernel has no such mutexes.

use crate::memory::{Segment, SegmentView};
use base::protocol::shared::{DOORBELLS_END, LIVES};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

/// What the kernel keeps in such a word (futex(2)), the lower half of ours: the thread that holds it, or that this one has ended.
const FUTEX: u64 = 0xffff_ffff;
const THREAD: u64 = 0x3fff_ffff;
const ENDED: u64 = 0x4000_0000;

const _: () = assert!(LIVES + size_of::<libc::pthread_mutex_t>() <= DOORBELLS_END);

/// Says that this process lives. The thread that made it drops it, or ends.
pub struct Held {
    doorbells: Arc<Segment>,
    /// The mutex belongs to the thread.
    here: PhantomData<*mut ()>,
}

impl Held {
    /// `None`: it cannot be said. The caller sees to it that there is one at a time for this memory.
    pub(super) fn new(doorbells: &Arc<Segment>) -> Option<Held> {
        let mutex = mutex(doorbells);
        // SAFETY: `attr` is initialized first, and given back. The mutex's memory is mapped as long as the result lives, which unlocks it. Other
        // processes of this user could write there, as they could to any memory of ours; ours do not.
        let is_locked = unsafe {
            let mut attr = std::mem::MaybeUninit::uninit();
            libc::pthread_mutexattr_init(attr.as_mut_ptr()) == 0 && {
                let all_well = libc::pthread_mutexattr_setpshared(attr.as_mut_ptr(), libc::PTHREAD_PROCESS_SHARED) == 0
                    && libc::pthread_mutexattr_setrobust(attr.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST) == 0
                    && libc::pthread_mutex_init(mutex, attr.as_ptr()) == 0
                    && libc::pthread_mutex_trylock(mutex) == 0;
                libc::pthread_mutexattr_destroy(attr.as_mut_ptr());
                all_well
            }
        };
        let held = is_locked.then(|| Held { doorbells: doorbells.clone(), here: PhantomData })?;
        (doorbells.load(LIVES, Relaxed) & THREAD == nix::unistd::gettid().as_raw() as u64 && is_marked_by_kernel())
            .then_some(held)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: this thread has locked it.
        unsafe { libc::pthread_mutex_unlock(mutex(&self.doorbells)) };
        // In a library where another word of the mutex says who holds it, this one may not be 0 now.
        self.doorbells.store(LIVES, 0, Release);
    }
}

fn mutex(doorbells: &Segment) -> *mut libc::pthread_mutex_t {
    doorbells.bytes(LIVES, size_of::<libc::pthread_mutex_t>()).cast()
}

/// Whether the C library has told the kernel where the robust mutexes of this thread are.
fn is_marked_by_kernel() -> bool {
    let (mut head, mut len) = (std::ptr::null_mut::<libc::c_void>(), 0usize);
    // SAFETY: the kernel writes the two words.
    let said = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &mut head, &mut len) };
    said == 0 && !head.is_null()
}

/// What another process says of itself.
#[derive(Clone)]
pub(super) struct Liveness {
    doorbells: Arc<Segment>,
    /// The word as it was.
    held: u64,
}

impl Liveness {
    /// `None`: it says nothing, or has ended.
    pub(super) fn of(doorbells: &Arc<Segment>) -> Option<Liveness> {
        let held = doorbells.load(LIVES, Acquire) & FUTEX;
        (held & THREAD != 0 && held & ENDED == 0).then(|| Liveness { doorbells: doorbells.clone(), held })
    }

    /// Whether it lives now, after all that this thread did before.
    #[inline]
    pub(super) fn is_alive(&self) -> bool {
        fence(Acquire);
        self.doorbells.load(LIVES, Relaxed) & FUTEX == self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    const MEMORY: &str = "LIVENESS_TEST_MEMORY";

    #[test]
    fn a_thread_says_it_until_it_ends() {
        let memory = Arc::new(Segment::create(DOORBELLS_END).unwrap().0);
        assert!(Liveness::of(&memory).is_none(), "nothing is said");
        for is_dropped in [true, false, true] {
            let seen = std::thread::scope(|scope| {
                let holder = scope.spawn(|| {
                    let held = Held::new(&memory).expect("this kernel and this library can");
                    let seen = Liveness::of(&memory).expect("it lives");
                    assert!(seen.is_alive());
                    if is_dropped {
                        drop(held)
                    } else {
                        std::mem::forget(held)
                    }
                    seen
                });
                holder.join().unwrap()
            });
            assert!(!seen.is_alive());
            assert!(Liveness::of(&memory).is_none());
            // As other memory would be.
            memory.store(LIVES, 0, Relaxed);
        }
    }

    #[test]
    fn the_kernel_says_that_a_process_has_ended() {
        for end in ["kill", "exec", "exit"] {
            let (memory, fd) = Segment::create(DOORBELLS_END).unwrap();
            let memory = Arc::new(memory);
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["shm::liveness::tests::says_that_it_lives", "--exact", "--ignored", "--nocapture"])
                .env(MEMORY, format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd()))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
            assert!(lines.any(|line| line.ends_with("held")));
            let seen = Liveness::of(&memory).expect("it lives");
            assert!(seen.is_alive());
            match end {
                "kill" => child.kill().unwrap(),
                end => child.stdin.as_mut().unwrap().write_all(format!("{end}\n").as_bytes()).unwrap(),
            }
            if end == "exec" {
                // It lives, with another program.
                assert!(lines.any(|line| line == "another"));
                assert!(!seen.is_alive());
                child.kill().unwrap();
            }
            child.wait().unwrap();
            assert!(!seen.is_alive(), "{end}");
        }
    }

    /// Not a test: the other process of the test before.
    #[test]
    #[ignore = "the other process of the_kernel_says_that_a_process_has_ended"]
    fn says_that_it_lives() {
        let Ok(path) = std::env::var(MEMORY) else { return };
        let file = File::options().read(true).write(true).open(path).unwrap();
        let memory = Arc::new(Segment::adopt(file.into(), DOORBELLS_END).unwrap());
        // As in a process of ours, it is not the first thread, and it does not end by itself.
        std::thread::spawn(move || {
            let _held = Held::new(&memory).unwrap();
            println!("held");
            loop {
                std::thread::park();
            }
        });
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).unwrap();
        if line.starts_with("exec") {
            panic!("{}", Command::new("sh").args(["-c", "echo another; exec sleep 60"]).exec());
        }
        std::process::exit(0);
    }
}
