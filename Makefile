# `make demo` runs the main job, `make test` passes the tests; both set the machine up first.

# Outside the checkout, so that a fresh clone does not compile Bitcoin Core's engine again.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/godwit/target
# Where rustup puts cargo; a shell that was open during its installation does not know.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: demo test soak bench-import setup

demo: setup
	cargo build --release --locked --workspace --bins
	@tools/demo $(CARGO_TARGET_DIR)/release

test: setup
	@tools/test

# The tests marked #[ignore]: the same code with long counts, one after another.
soak: setup
	cargo test --release --locked --workspace -- --ignored --nocapture --test-threads=1

# Import against Bitcoin Core's bitcoind; wants a quiet machine for three quarters of an hour. Options
# of import-vs-core go in OPTIONS.
bench-import: setup
	cargo build --release --locked --workspace --bins
	@tools/bench-import $(CARGO_TARGET_DIR)/release $(OPTIONS)

setup:
	@tools/setup
