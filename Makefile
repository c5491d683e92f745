# The few commands that matter. Each does its own set-up on a machine that has Rust.
.PHONY: demo check test bench experiments dashboard-test screenshots

CARGO ?= cargo

demo: ## the main job on a generated world with known truth
	$(CARGO) run --quiet --release -p cadet-cli -- demo --out cadet-demo

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

dashboard-test: ## the dashboard in a browser: every page, light and dark, wide and narrow (wants chromium and npm)
	$(CARGO) build --quiet -p cadet-cli
	python3 crates/cadet-serve/tests/dashboard/run.py

screenshots: ## docs/images/, made again
	$(CARGO) build --quiet -p cadet-cli
	python3 crates/cadet-serve/tests/dashboard/run.py --shots docs/images
