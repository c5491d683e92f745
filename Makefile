# The few commands that matter. Each does its own set-up on a machine that has Rust.
.PHONY: demo serve check test wheel python-test bench experiments serve-test dashboard-test soak screenshots

CARGO ?= cargo

demo: ## the main job on a generated world with known truth
	$(CARGO) run --quiet --release -p cadet-cli -- demo --out cadet-demo

serve: ## the service: a model of a generated shop, unless cadet-serve-data has one, and the dashboard on port 8377
	$(CARGO) run --quiet --release -p cadet-cli -- demo --into cadet-serve-data
	$(CARGO) run --quiet --release -p cadet-cli -- serve cadet-serve-data

PRODUCT = -p cadet -p cadet-data -p cadet-plot -p cadet-show -p cadet-serve -p cadet-python -p cadet-cli

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
	$(MAKE) python-test serve-test BUILT=1

# The tool for tests from without. After `cargo test` it is there; building it by itself is done with other features
# of what it rests on, so that most would be built again.
TOOL = $(if $(BUILT),test -x target/debug/cadet,$(CARGO) build --quiet -p cadet-cli)

PYTHON = target/python/bin/python
PIP = -m pip install --quiet --disable-pip-version-check

$(PYTHON): crates/cadet-python/tests/requirements.txt
	crates/cadet-serve/tests/process/tools.sh python3
	python3 -m venv --clear target/python
	$(PYTHON) $(PIP) -r $<
	touch $@

wheel: $(PYTHON) ## the Python package, into target/wheels, and tried in an empty environment
	rm -rf target/wheels
	target/python/bin/maturin build --quiet --release -m crates/cadet-python/Cargo.toml --out target/wheels
	python3 -m venv --clear target/empty
	target/empty/bin/python $(PIP) target/wheels/*.whl
	target/empty/bin/python -c 'import cadet; print(cadet.fit(cadet.demo_log(), epochs=2))'
	ls target/wheels/*.whl

python-test: $(PYTHON) ## the Python package beside the command line
	$(TOOL)
	rm -rf target/python/wheels
	target/python/bin/maturin build --quiet -m crates/cadet-python/Cargo.toml --out target/python/wheels
	$(PYTHON) $(PIP) --force-reinstall --no-deps target/python/wheels/*.whl
	CADET_CLI=$(CURDIR)/target/debug/cadet $(PYTHON) -m pytest crates/cadet-python/tests

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
	$(TOOL)
	python3 $(SERVE_TESTS)/dashboard/run.py

soak: ## what takes long: thousands of kills, swaps and slow clients, ten times the questions, floods of a minute
	$(CARGO) test $(PRODUCT) --quiet soak_ -- --ignored --test-threads 1
	$(SERVE_TESTS)/process/tools.sh python3
	$(TOOL)
	python3 $(SERVE_TESTS)/process/contract.py --soak
	python3 $(SERVE_TESTS)/process/abuse.py --soak

screenshots: ## docs/images/, made again
	$(SERVE_TESTS)/process/tools.sh python3 chromium npm
	$(TOOL)
	python3 $(SERVE_TESTS)/dashboard/run.py --shots docs/images
