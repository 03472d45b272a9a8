# `make demo` runs the main job, `make test` passes the tests; both set the machine up first.

# Outside the checkout, so that a fresh clone does not compile Bitcoin Core's engine again.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/godwit/target
# Where rustup puts cargo; a shell that was open during its installation does not know.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: demo test soak fuzz seams ifma arm interop bench bench-import bench-sync bench-ibd bench-core bench-core-policies bench-rpc record-syncs bench-cold bench-writing bench-memory bench-damages bench-verify bench-workers bench-worst setup

demo: setup
	cargo build --release --locked --workspace --bins
	@tools/demo "$(CARGO_TARGET_DIR)/release"

test: setup
	@tools/test

# The tests marked #[ignore]: the same code with long counts, one after another.
soak: setup
	cargo test --release --locked --workspace -- --ignored --nocapture --test-threads=1

# Hostile bytes for each target of fuzz/, two minutes each unless SECONDS says otherwise; stops at the
# first crash. TARGETS names some of them.
fuzz: setup
	@tools/fuzz $(or $(SECONDS),120) $(TARGETS)

# The tests of what crosses into C++, under valgrind; some minutes.
seams: setup
	@tools/test-seams

# Signatures on AVX-512 IFMA where the processor has AVX-512 without it, by emulation of two instructions:
# all tests of godwit-verify and godwit-script, some ten minutes. `make test` has the short ones.
ifma: setup
	@tools/test-ifma

# godwit on ARM64 under QEMU, as far as an emulator can show it: tests, a chain of 40 MB, and counts of
# the instructions (no times) of a signature check. On x86-64 with Debian's packages, which it installs first.
arm: setup
	@tools/setup arm
	cargo build --release --locked --workspace --bins
	@tools/test-arm

# godwit beside bitcoind and three versions of btcd, heard by pyzmq, read by Prometheus, with a service of Tor's, asked by the
# clients of btcd, btcwallet, corepc and BDK, and under two lnds and two versions of electrs, and its signer beside a wallet of
# Bitcoin Core, all of which it gets first; once they are in the cache, `make test` runs these tests too.
interop: setup
	@tools/build-bitcoind
	@tools/build-bitcoind 28.99
	@tools/build-btcd
	@tools/build-pyzmq
	@tools/build-prometheus
	@tools/build-tor
	@tools/build-btcsuite
	@tools/build-rpc-clients
	@tools/build-lnd
	@tools/build-electrs 0.12.0
	@tools/build-electrs 0.11.1
	cargo test --release --locked -p godwit --test it interop:: -- --nocapture
	cargo test --release --locked -p godwit-signer --test it core:: -- --nocapture

# The six benchmarks of bitcoin/bitcoin#30987 beside other programs; wants a quiet machine for fifteen
# minutes behind the building. Options of godwit-bench go in OPTIONS.
bench: setup
	@tools/bench $(OPTIONS)

# Import against Bitcoin Core's bitcoind; wants a quiet machine for an hour and a half. Options
# of import-vs-core go in OPTIONS.
bench-import: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-import "$(CARGO_TARGET_DIR)/release" $(OPTIONS)

# Which options make bitcoind fastest here: what make bench-import and bench-sync are to give it in
# -bitcoind-options. Wants a quiet machine for half an hour. Options of core-settings go in OPTIONS.
bench-core: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-core "$(CARGO_TARGET_DIR)/release" $(OPTIONS)

# Download from bitcoinds, against a bitcoind; likewise, for two hours. Options of sync-vs-core go in
# OPTIONS.
bench-sync: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-sync "$(CARGO_TARGET_DIR)/release" $(OPTIONS)

# Blocks whose coins are not in memory, against a bitcoind on the same coins; likewise, as root, for an hour
# behind the making of 60 million coins. Options of cold-vs-core go in OPTIONS.
bench-cold: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-cold "$(CARGO_TARGET_DIR)/release" $(OPTIONS)

# Syncs of the real program for the test of its estimate of the time that is left; an hour, and another result on another
# machine. OPTIONS=-only=0,1 records some of them again, -at-once=4 several at a time.
record-syncs: setup
	cargo build --release --locked --workspace --bins
	@tools/record-syncs "$(CARGO_TARGET_DIR)/release" "$$(tools/bench-chain "$(CARGO_TARGET_DIR)/release")" \
		crates/godwit-api/src/sync/estimate/recorded $(OPTIONS)

# What clients of the RPC cost a sync with every script, and how long they wait; likewise, for twenty minutes. Options of
# rpc-load go in OPTIONS.
bench-rpc: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-rpc "$(CARGO_TARGET_DIR)/release" $(OPTIONS)

# What writing coins early costs an import (-flushinterval), with every script and without; wants a quiet machine for twenty
# minutes. Options of early-writing go in OPTIONS.
bench-writing: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-writing "$(CARGO_TARGET_DIR)/release" $(OPTIONS)

# What a limit of memory costs: 950,000 headers within control groups of 1 GiB and 512 MiB; as root, on a quiet machine, for
# an hour and a half, or ROUNDS times a quarter of an hour.
bench-memory: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-memory "$(CARGO_TARGET_DIR)/release" $(ROUNDS)

# What repairs one damaged file of a directory of 2 GB, and what that costs, for each kind of file; processor time is what counts, so
# the machine may be busy. Ten minutes on a quiet machine, 8 GB of disk.
bench-damages: setup
	cargo build --release --locked --workspace --bins
	@tools/damage-matrix "$(CARGO_TARGET_DIR)/release" "$$(tools/bench-chain "$(CARGO_TARGET_DIR)/release")" \
		"$(CARGO_TARGET_DIR)/damages"

# What wiping freed memory costs over a whole sync, with a bitcoind for comparison; wants a quiet
# machine for an hour. Options of ibd-policies go in OPTIONS.
bench-ibd: setup
	@tools/bench-ibd $(OPTIONS)

# What wiping freed memory costs Bitcoin Core itself, in whole syncs and in the benchmarks of bitcoin/bitcoin#30987: builds two
# versions of it in five ways (half an hour), and wants a quiet machine for some hours, or for MINUTES with each version.
# CORES names the versions; options of core-policies -sync go in OPTIONS.
bench-core-policies: setup
	cargo build --release --locked -p godwit-sim -p godwit -p godwit-bench --bin godwit-sim --bin godwit --bin core-policies
	@tools/bench-core-policies "$(CARGO_TARGET_DIR)/release" $(OPTIONS)

# Microseconds per signature check in lanes, beside libsecp256k1; wants a quiet machine for a minute or two.
bench-verify: setup
	cargo run --release --locked -p godwit-script --example bench-verify

# What a chain takes with 1 to 32 workers, and which threads wait for which, in virtual time: one processor does all of it,
# in five minutes. WORKERS are other numbers of them.
bench-workers: setup
	cargo build --release --locked --workspace --bins
	cargo run --release --locked -p godwit-chain --example virtual-workers -- \
		"$$(tools/bench-chain "$(CARGO_TARGET_DIR)/release")" $(WORKERS)

# What the worst blocks cost with claims, beside Bitcoin Core's engine alone, in turns on one thread; takes a quarter of
# an hour. KIND names some of the kinds by a part of their names, LANES=avx2 narrower lanes.
bench-worst: setup
	cargo run --release --locked -p godwit-script --example worst-blocks -- "$(KIND)" $(LANES)

setup:
	@tools/setup
