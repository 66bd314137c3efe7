# MPI_Connect. `make demo` and `make test` are the two commands to begin with; each installs what it lacks.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# Which MPI each half of the demo runs under: mpich4 mpich5 mpich5-abi openmpi4 openmpi5 impi impi-abi lam.
LEFT ?= openmpi4
RIGHT ?= mpich4

RELEASE := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)/release
HEADERS := include/mpi_connect.h include/mpif_connect.h include/mpi_connect.f90 include/mpi_connect_f08.f90
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# How long `make soak` goes on, in minutes.
MINUTES ?= 30

.PHONY: all headers demo test soak bench ports-table pure system figures check deny install provision tsan clean

# The headers and docs/coverage.md are committed; `make headers` writes them, `make check` compares them with the source.
all: $(HEADERS)
	$(CARGO) build --release -p mpi-connect-shim -p mpi-connect

$(RELEASE)/mpi-connect $(RELEASE)/libmpi_connect.so:
	$(MAKE) all

$(HEADERS):
	$(MAKE) headers

headers:
	mkdir -p include
	MPI_CONNECT_WRITE_HEADERS=1 $(CARGO) test -q -p mpi-connect --test headers

provision:
	@scripts/provision

demo: provision all
	$(CARGO) run --release -q -p mpi-connect-demo -- $(LEFT) $(RIGHT)

test: provision all
	rm -rf target/figures
	@passed=yes; for part in pure system figures; do \
	    $(MAKE) --no-print-directory $$part || passed=no; \
	done; [ $$passed = yes ]

# The tests that draw their cases at random, over and over with new seeds. Ends at the first failure, which says how to
# repeat it.
soak: provision all
	@MINUTES="$(MINUTES)" CARGO="$(CARGO)" scripts/soak

# How fast it is, beside the MPIs' own messages: about 20 minutes on a quiet machine, QUICK=1 some 3. ROWS=, MPIS=, PAIR=
# and ROUNDS= choose (bench/src/settings.rs); RECORD=1 writes docs/performance.md.
bench: all
	@scripts/provision bench
	@QUICK="$(QUICK)" ROWS="$(ROWS)" MPIS="$(MPIS)" PAIR="$(PAIR)" ROUNDS="$(ROUNDS)" RECORD="$(RECORD)" \
	    $(CARGO) run -q -p mpi-connect-bench

# Who meets whom at MPI's own ports, with the library and without: writes docs/ports.md. Some ten minutes, since much
# hangs without.
ports-table: provision all
	$(CARGO) run -q -p mpi-connect-c-tests --bin ports-table

# The layers that need no MPI.
pure:
	$(CARGO) test -q --no-fail-fast --workspace --exclude mpi-connect-c-tests --exclude mpi-connect-demo

# Whole jobs under real MPIs. TEST= picks some by name, MPIS= some MPIs, with commas between.
system:
	MPI_CONNECT_TEST_MPIS="$(MPIS)" $(CARGO) test -q --no-fail-fast -p mpi-connect-c-tests -- --test-threads=1 --nocapture $(TEST)

# ThreadSanitizer over the layers without threads of their own: engine, path, lanes, simulator. Not over the node: Rust's
# own locks, of which the sanitizer sees only the half that is compiled here, would be reported as races. What the test
# harness itself does is left out for the same reason.
tsan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
	TSAN_OPTIONS="suppressions=$(CURDIR)/scripts/tsan.supp" \
	$(CARGO) test -q --target-dir target/tsan --target x86_64-unknown-linux-gnu \
	    -p mpi-connect-engine -p mpi-connect-transports --lib --tests -- --skip shm::model

figures:
	@echo; echo "FIGURES"; for f in target/figures/*.txt; do echo; cat "$$f"; done

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test -q -p mpi-connect --test headers
	@if cargo-deny --version >/dev/null 2>&1; then cargo-deny check licenses bans sources; \
	else echo "check: licences, bans and sources NOT checked: no cargo-deny here (\`make deny\` builds it, about 2 minutes)"; fi

# Advisories need a database from the network, so they are not part of it.
deny:
	@[ -x target/tools/bin/cargo-deny ] || $(CARGO) install --locked --root target/tools cargo-deny
	target/tools/bin/cargo-deny check licenses bans sources

# Installs what `make` has built: root may have no cargo.
install: $(RELEASE)/mpi-connect $(RELEASE)/libmpi_connect.so $(HEADERS)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(RELEASE)/mpi-connect $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(RELEASE)/libmpi_connect.so $(DESTDIR)$(PREFIX)/lib/
	install -m 644 $(HEADERS) $(DESTDIR)$(PREFIX)/include/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@VERSION@|$(VERSION)|' scripts/mpi_connect.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/mpi_connect.pc

clean:
	$(CARGO) clean
