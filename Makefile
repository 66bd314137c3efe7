# MPI_Connect. `make demo` and `make test` are the two commands to begin with; each installs what it lacks.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# Which MPI each half of the demo runs under: openmpi and mpich are those on the PATH, Debian's if there is none; or one of
# mpich4 mpich5 mpich5-abi openmpi4 openmpi5 impi impi-abi lam.
LEFT ?= openmpi
RIGHT ?= mpich

BUILT := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
RELEASE := $(BUILT)/release
HEADERS := include/mpi_connect.h include/mpif_connect.h include/mpi_connect.f90 include/mpi_connect_f08.f90
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# How long `make soak` goes on, in minutes.
MINUTES ?= 30
# How long `make fuzz` gives each target, in seconds, unless RUNS= says how many inputs.
SECONDS ?= 10
# How many tests are run beside each other: much of what they do is wait.
SEQUENCES ?= 6

.PHONY: all library verbs test-verbs test-image switches images-speed top-picture headers demo test test-all built tests-built fuzz fuzz-built fuzz-corpus asan soak faults bench scale checkpoint-costs ports-table pure system figures check deny install install-verbs uninstall provision packages test-packages tsan clean

# The headers, docs/coverage.md and the tables of docs/protocol.md are committed; `make headers` writes them, `make check`
# compares them with the source.
all: $(HEADERS)
	$(CARGO) build --release -p mpi-connect-shim -p mpi-connect

# The plug-in for RDMA devices. It needs nothing of the verbs to be built.
verbs:
	$(CARGO) build --release -p mpi-connect-verbs

# Verbs over the RDMA devices of this host, or where RDMA_RUN=COMMAND runs a command. TEST= picks some of the programs of jobs.
test-verbs: all verbs
	@CARGO="$(CARGO)" RDMA_RUN="$(RDMA_RUN)" TEST="$(TEST)" scripts/verbs

# A process is held, written to an image by CRIU, killed, restored and resumed, as root; IMAGE_RUN=COMMAND runs that elsewhere.
test-image: all
	@IMAGE_RUN="$(IMAGE_RUN)" scripts/image

# How long moves between transports take, under load: MOVES= of them, over LANES= (shm tcp), then breaks and unloading.
switches:
	$(CARGO) run -q --release -p mpi-connect-node --example switches -- $(or $(MOVES),1000) $(LANES)

# How fast images of checkpoints are written, beside dd to the same folder, and read: IN= a folder on the disk that is meant.
images-speed:
	$(CARGO) run -q --release -p mpi-connect-checkpoint --example speed -- $(or $(IN),$(BUILT)/tmp) $(or $(MEGABYTES),512) $(or $(ROUNDS),21)

# The picture in docs/operating.md, of two jobs under Open MPI and MPICH.
top-picture: all
	@scripts/top-picture

$(RELEASE)/mpi-connect $(RELEASE)/libmpi_connect.so:
	$(MAKE) all

$(HEADERS):
	$(MAKE) headers

headers:
	mkdir -p include
	MPI_CONNECT_WRITE_HEADERS=1 $(CARGO) test -q -p mpi-connect --test headers --test protocol

provision:
	@scripts/provision

# The library is built meanwhile, quickly: what is installed is better optimised. With CHECKPOINT=1 both halves are killed in
# the middle, and each goes on under the other's MPI.
demo:
	@echo "building the library and the demo"; \
	$(CARGO) build -q --profile quick -p mpi-connect-shim -p mpi-connect -p mpi-connect-demo & build=$$!; \
	scripts/provision $(LEFT) $(RIGHT) || { kill $$build; exit 1; }; \
	wait $$build && $(BUILT)/quick/plate $(if $(CHECKPOINT),--checkpoint) $(LEFT) $(RIGHT)

test: provision
	@rm -rf target/figures target/failed; mkdir -p target/figures; passed=yes; \
	parts=target/figures/02-parts.txt; echo "seconds of make test, part by part" >$$parts; \
	for part in built pure system; do \
	    since=$$(date +%s); $(MAKE) --no-print-directory $$part || passed=no; \
	    echo "  $$part: $$(($$(date +%s) - since))" >>$$parts; \
	    [ -e $(RELEASE)/$(LIBRARY) ] || break; \
	done; \
	$(MAKE) --no-print-directory figures; [ $$passed = yes ] || { scripts/failed; false; }

# Everything at full width, a round of what is random, and the packages: what `make test` leaves to it, its figures say.
test-all:
	MPI_CONNECT_TEST_WIDTH=all $(MAKE) test
	$(MAKE) fuzz
	$(MAKE) soak MINUTES=1
	$(MAKE) test-packages

# The library and the tests, at the same time; at full width also the command as it is installed, which takes a minute.
built:
	@$(MAKE) --no-print-directory -j2 $(if $(MPI_CONNECT_TEST_WIDTH),all,library) tests-built
	@$(MAKE) --no-print-directory verbs

library: $(HEADERS)
	$(CARGO) build --release -p mpi-connect-shim

tests-built:
	$(CARGO) test -q --workspace --no-run
	$(CARGO) test -q --workspace --test system --no-run

fuzz-built:
	@CARGO="$(CARGO)" scripts/fuzz build

# Inputs that nobody would send, for all that reads bytes of others, guided by the branches that they take (docs/fuzzing.md).
# TARGET= picks some, with commas between; ASAN=1 builds them with AddressSanitizer, FAST=1 for very many inputs.
fuzz:
	@export CARGO="$(CARGO)" FUZZ_SECONDS="$(SECONDS)" FUZZ_RUNS="$(RUNS)" FUZZ_TARGET="$(TARGET)" FUZZ_ASAN="$(ASAN)" FUZZ_FAST="$(FAST)"; \
	    scripts/fuzz build && scripts/fuzz run

# Brings what `make fuzz` has found into fuzz/corpus, as few inputs as show all of it.
fuzz-corpus: fuzz-built
	@FUZZ_TARGET="$(TARGET)" scripts/fuzz corpus

# The tests that draw their cases at random, over and over with new seeds. Ends at the first failure, which says how to
# repeat it.
soak: provision all
	@MINUTES="$(MINUTES)" CARGO="$(CARGO)" scripts/soak

# Faults at random under full traffic, as root: FAULTS= of them (1,000), SEED=, LONGEST= of their times in seconds (20),
# AT_ONCE= of pairs (8), ACT= to repeat one of them alone. RECORD=1 writes docs/reliability.md. Some 10 minutes, most of them waiting.
faults: provision all
	@FAULTS="$(FAULTS)" SEED="$(SEED)" LONGEST="$(LONGEST)" AT_ONCE="$(AT_ONCE)" ACT="$(ACT)" RECORD="$(RECORD)" \
	    $(CARGO) run -q -p mpi-connect-c-tests --bin faults

# How fast it is, beside the MPIs' own messages: about 20 minutes on a quiet machine, QUICK=1 some 3. ROWS=, MPIS=, PAIR=
# and ROUNDS= choose (bench/src/settings.rs); BUSY=1 has a core busy meanwhile. RECORD=1 writes docs/performance.md, or with BUSY=1
# docs/performance-busy.md.
bench: all
	@scripts/provision bench
	@QUICK="$(QUICK)" ROWS="$(ROWS)" MPIS="$(MPIS)" PAIR="$(PAIR)" ROUNDS="$(ROUNDS)" BUSY="$(BUSY)" RECORD="$(RECORD)" \
	    $(CARGO) run -q -p mpi-connect-bench

# What many ranks cost: from 2^FROM= (10) to 2^TO= (20) of them in one process, of which up to 2^EXCHANGE= (20) exchange messages, then twice
# PROCESSES= (256, or 0) real ones, under FIRST= and SECOND= (openmpi4, mpich4), beside ADIOS2. RECORD=1 writes docs/scale.md. Half an
# hour, and up to GIB= (16).
scale: all
	@scripts/sst
	@FROM="$(FROM)" TO="$(TO)" EXCHANGE="$(EXCHANGE)" GIB="$(GIB)" PROCESSES="$(PROCESSES)" FIRST="$(FIRST)" SECOND="$(SECOND)" RECORD="$(RECORD)" \
	    $(CARGO) run -q --release -p mpi-connect-bench --bin scale

# What checkpoints cost jobs that exchange messages without a pause: LAUNCHES= of each kind (5), some 50 s each.
checkpoint-costs: provision all
	@LAUNCHES="$(LAUNCHES)" $(CARGO) run -q -p mpi-connect-c-tests --bin checkpoint-costs

# Who meets whom at MPI's own ports, with the library and without: writes docs/ports.md. Some ten minutes, since much
# hangs without.
ports-table: provision all
	$(CARGO) run -q -p mpi-connect-c-tests --bin ports-table

# The layers that need no MPI. Always the whole workspace: with parts of it, cargo builds what they share anew.
pure:
	@CARGO="$(CARGO)" SEQUENCES="$(SEQUENCES)" scripts/pure

# Whole jobs under real MPIs. TEST= picks some by name, MPIS= some MPIs, with commas between; SEQUENCES= of tests run
# beside each other.
system:
	@CARGO="$(CARGO)" SEQUENCES="$(SEQUENCES)" MPI_CONNECT_TEST_MPIS="$(MPIS)" scripts/system $(TEST)

# ThreadSanitizer over the layers without threads of their own: engine, wire, session with its simulator, transports. Not over
# the node, the routers, the toy transport and the imitated RDMA device: Rust's own locks, of which the sanitizer sees only the half that is compiled here, would be
# reported as races. What the test harness itself does is left out for the same reason.
tsan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" \
	TSAN_OPTIONS="suppressions=$(CURDIR)/scripts/tsan.supp" \
	$(CARGO) test -q --target-dir target/tsan --target x86_64-unknown-linux-gnu \
	    -p mpi-connect-engine -p mpi-connect-wire -p mpi-connect-session -p mpi-connect-transports --lib --tests -- \
	    --skip shm::model --skip router:: --skip toy:: --skip verbs::

# AddressSanitizer over the unit tests of all layers with unsafe code, and of those that read bytes of others.
asan:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=address" \
	LSAN_OPTIONS="suppressions=$(CURDIR)/scripts/lsan.supp" \
	$(CARGO) test -q --target-dir $(BUILT)/asan --target $(shell rustc -vV | sed -n 's/^host: //p') \
	    -p mpi-connect-base -p mpi-connect-engine -p mpi-connect-wire -p mpi-connect-transports -p mpi-connect-node \
	    -p mpi-connect-naming -p mpi-connect-shim --lib -- --skip shm::model

figures:
	@echo; echo "FIGURES"; for f in target/figures/*.txt; do echo; cat "$$f"; done

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) test -q -p mpi-connect --test headers --test protocol --test sources --test glossary --test dependencies --test transports --test layers --test fuzzing
	$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	@if c++ --version >/dev/null 2>&1; then \
	    $(CARGO) clippy -q --manifest-path fuzz/Cargo.toml --target-dir $(BUILT)/fuzz --all-targets -- -D warnings; \
	else echo "check: fuzz/ NOT looked over by clippy: no C++ compiler here (\`make provision\` installs it)"; fi
	@if cargo-deny --version >/dev/null 2>&1; then cargo-deny --workspace check licenses bans sources && \
	    cargo-deny --manifest-path fuzz/Cargo.toml --config deny.toml check licenses bans sources; \
	else echo "check: licences, bans and sources NOT checked: no cargo-deny here (\`make deny\` builds it, about 2 minutes)"; fi

# Advisories need a database from the network, so they are not part of it.
deny:
	@[ -x target/tools/bin/cargo-deny ] || $(CARGO) install --locked --root target/tools cargo-deny
	target/tools/bin/cargo-deny --workspace check licenses bans sources
	target/tools/bin/cargo-deny --manifest-path fuzz/Cargo.toml --config deny.toml check licenses bans sources

# What `make install` puts where below PREFIX, and `make uninstall` removes: SOURCE=PLACE. In a source that ends in `.in`
# words between @ are filled in.
LIBRARY := libmpi_connect.so
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
INSTALLED = $(RELEASE)/mpi-connect=bin/mpi-connect $(RELEASE)/$(LIBRARY)=lib/$(LIBRARY).$(VERSION) \
    $(foreach header,$(HEADERS),$(header)=include/$(notdir $(header))) \
    scripts/mpi_connect.pc.in=lib/pkgconfig/mpi_connect.pc \
    scripts/MPI_ConnectConfig.cmake.in=lib/cmake/MPI_Connect/MPI_ConnectConfig.cmake \
    scripts/MPI_ConnectConfigVersion.cmake.in=lib/cmake/MPI_Connect/MPI_ConnectConfigVersion.cmake \
    packaging/mpi-connect.service.in=lib/systemd/system/mpi-connect.service \
    $(foreach page,coverage limits troubleshooting,docs/$(page).md=share/doc/mpi-connect/$(page).md) \
    $(foreach licence,$(wildcard LICENSE-*),$(licence)=share/doc/mpi-connect/$(licence))
# Links beside what they lead to: LINK=FILE.
LINKED = lib/$(LIBRARY).$(SOVERSION)=$(LIBRARY).$(VERSION) lib/$(LIBRARY)=$(LIBRARY).$(SOVERSION)
PLACES = $(foreach pair,$(INSTALLED),$(lastword $(subst =, ,$(pair)))) $(foreach pair,$(LINKED),$(firstword $(subst =, ,$(pair))))

# The plug-in for RDMA devices comes by a target of its own: few hosts can use it.
PLUGIN := libmpi_connect_verbs.so
PLACES += lib/$(PLUGIN)
$(RELEASE)/$(PLUGIN):
	$(MAKE) verbs
install-verbs: $(RELEASE)/$(PLUGIN)
	@install -D -m 755 $< "$(DESTDIR)$(PREFIX)/lib/$(PLUGIN)"
	@echo "installed below $(DESTDIR)$(PREFIX): beside libmpi_connect.so, which loads it where libibverbs and a device are"

# Installs what `make` has built: root may have no cargo.
install: $(RELEASE)/mpi-connect $(RELEASE)/$(LIBRARY) $(HEADERS)
	@set -e; for pair in $(INSTALLED); do \
	    source=$${pair%%=*}; place="$(DESTDIR)$(PREFIX)/$${pair#*=}"; \
	    case $$pair in *=bin/*|*=lib/$(LIBRARY)*) mode=755;; *) mode=644;; esac; \
	    install -D -m $$mode "$$source" "$$place"; \
	    case $$source in *.in) sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g' \
	        -e 's|@SOVERSION@|$(SOVERSION)|g' "$$source" > "$$place";; esac; \
	done
	@set -e; for pair in $(LINKED); do ln -sf "$${pair#*=}" "$(DESTDIR)$(PREFIX)/$${pair%%=*}"; done
	@echo "installed below $(DESTDIR)$(PREFIX)"

# Folders that are empty then go too, but not those that every system has.
uninstall:
	@for place in $(PLACES); do \
	    rm -f "$(DESTDIR)$(PREFIX)/$$place"; folder=$${place%/*}; \
	    while [ "$$folder" != "$${folder%/*}" ] || case "$(PREFIX)" in /usr|/usr/local) false;; esac; do \
	        rmdir "$(DESTDIR)$(PREFIX)/$$folder" 2>/dev/null || break; \
	        [ "$$folder" != "$${folder%/*}" ] || break; folder=$${folder%/*}; \
	    done; \
	done
	@echo "removed from $(DESTDIR)$(PREFIX)"

# The manual pages and the shells' completions, below share: the command writes them.
PAGES := \
    bash-completion/completions/mpi-connect \
    fish/vendor_completions.d/mpi-connect.fish \
    man/man1/mpi-connect-checkpoint.1 \
    man/man1/mpi-connect-cp.1 \
    man/man1/mpi-connect-ctl.1 \
    man/man1/mpi-connect-doctor.1 \
    man/man1/mpi-connect-key.1 \
    man/man1/mpi-connect-launch.1 \
    man/man1/mpi-connect-names.1 \
    man/man1/mpi-connect-relay.1 \
    man/man1/mpi-connect-run.1 \
    man/man1/mpi-connect-serve.1 \
    man/man1/mpi-connect-top.1 \
    man/man1/mpi-connect.1 \
    man/man3/MPI_Conn_checkpoint.3 \
    man/man3/MPI_Conn_error_class.3 \
    man/man3/MPI_Conn_getfile.3 \
    man/man3/MPI_Conn_hold.3 \
    man/man3/MPI_Conn_intercomm_create.3 \
    man/man3/MPI_Conn_notify.3 \
    man/man3/MPI_Conn_notify_cancel.3 \
    man/man3/MPI_Conn_on_hold.3 \
    man/man3/MPI_Conn_putfile.3 \
    man/man3/MPI_Conn_register.3 \
    man/man3/MPI_Conn_remove.3 \
    man/man3/MPI_Conn_restart.3 \
    man/man3/MPI_Conn_resume.3 \
    zsh/site-functions/_mpi-connect

INSTALLED += $(foreach page,$(PAGES),$(RELEASE)/share/$(page)=share/$(page))
install: $(addprefix $(RELEASE)/share/,$(PAGES))
$(addprefix $(RELEASE)/share/,$(PAGES)) &: $(RELEASE)/mpi-connect
	@$(RELEASE)/mpi-connect pages $(RELEASE)/share >/dev/null

# A Python wheel, a .deb and a relocatable tar, into target/packages, for every Linux with glibc 2.28 or newer.
packages:
	@CARGO="$(CARGO)" packaging/build

# Installs each where nothing else of the project is, and couples two jobs with it. As root, or with sudo.
test-packages: provision packages
	@packaging/test

clean:
	$(CARGO) clean
