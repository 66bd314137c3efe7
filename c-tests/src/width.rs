//! How much is run: `make test` covers, `make test-all` runs everything.

use crate::times;

/// Whether everything is run, whatever it takes: `MPI_CONNECT_TEST_WIDTH=all`, as `make test-all` sets it.
pub fn is_full() -> bool {
    match std::env::var("MPI_CONNECT_TEST_WIDTH") {
        Ok(width) if !width.is_empty() => {
            assert_eq!(width, "all", "MPI_CONNECT_TEST_WIDTH is all, or not set");
            true
        }
        _ => false,
    }
}

/// What `make test` runs of something, and what `make test-all` does. The figures tell what is left to the latter, in the
/// words of `what`.
pub fn otherwise<T>(test: T, all: T, what: &str) -> T {
    if is_full() {
        return all;
    }
    times::leave(what);
    test
}
