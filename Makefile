# The few commands that matter. Each does its own set-up on a machine that has Rust.
.PHONY: demo serve check test bench experiments serve-test dashboard-test soak screenshots

CARGO ?= cargo

demo: ## the main job on a generated world with known truth
	$(CARGO) run --quiet --release -p cadet-cli -- demo --out cadet-demo

serve: ## the service: a model of a generated shop, unless cadet-serve-data has one, and the dashboard on port 8377
	$(CARGO) run --quiet --release -p cadet-cli -- demo --into cadet-serve-data
	$(CARGO) run --quiet --release -p cadet-cli -- serve cadet-serve-data

PRODUCT = -p cadet -p cadet-data -p cadet-plot -p cadet-serve -p cadet-cli

check: ## the quick tier: format, lints and tests of the product, which knows nothing of research/
	! grep -nE '^(burn|cadet-(deep|paper))' crates/*/Cargo.toml
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(PRODUCT) --all-targets --quiet -- -D warnings
	$(CARGO) test $(PRODUCT) --quiet

test: ## every check, cheapest first
	! grep -nE '^(burn|cadet-(deep|paper))' crates/*/Cargo.toml
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) test --workspace --quiet
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	$(MAKE) serve-test

bench: ## speed beside PyTorch, ONNX Runtime and Polars, how fast a model answers, and a service
	python3 benches/peers/run.py
	$(CARGO) build --release -p cadet-cli --bins --examples
	target/release/examples/ask target/ask
	target/release/examples/serve target/serve

experiments: ## quality on generated worlds: settings compared over seeds
	$(CARGO) run --release -p cadet --example worlds -- research/results/worlds
	$(CARGO) run --release -p cadet --example scarce -- research/results/scarce
	$(CARGO) run --release -p cadet --example trust -- research/results/trust
	$(CARGO) run --release -p cadet-cli --example fdr -- research/results/fdr
	$(CARGO) run --release -p cadet-cli -- simulate --out research/results/simulate

SERVE_TESTS = crates/cadet-serve/tests

serve-test: dashboard-test ## the running service from without: its description, its enemies, its clients, alerts and board, its pages
	python3 $(SERVE_TESTS)/process/contract.py
	python3 $(SERVE_TESTS)/process/abuse.py
	$(SERVE_TESTS)/process/tools.sh curl node promtool
	ops/test.sh

dashboard-test: ## the dashboard in a browser: every page, light and dark, wide and narrow
	$(SERVE_TESTS)/process/tools.sh python3 chromium npm
	$(CARGO) build --quiet -p cadet-cli
	python3 $(SERVE_TESTS)/dashboard/run.py

soak: ## what takes long: thousands of kills, swaps and slow clients, ten times the questions, floods of a minute
	$(CARGO) test $(PRODUCT) --quiet soak_ -- --ignored --test-threads 1
	$(SERVE_TESTS)/process/tools.sh python3
	$(CARGO) build --quiet -p cadet-cli
	python3 $(SERVE_TESTS)/process/contract.py --soak
	python3 $(SERVE_TESTS)/process/abuse.py --soak

screenshots: ## docs/images/, made again
	$(SERVE_TESTS)/process/tools.sh python3 chromium npm
	$(CARGO) build --quiet -p cadet-cli
	python3 $(SERVE_TESTS)/dashboard/run.py --shots docs/images
