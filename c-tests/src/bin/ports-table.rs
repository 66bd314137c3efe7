use c_tests::ports::{By, try_pair};
use c_tests::{Library, Mpi};
use std::time::Duration;

fn main() {
    for (a, b) in Mpi::pairs() {
        println!("{} {} {:?}", a.name, b.name, try_pair(a, b, By::File, Library::None, Duration::from_secs(8)));
    }
}
