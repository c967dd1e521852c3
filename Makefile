# swift-ports: `make run` and `make test` need nothing but Debian 12 (or the like) and Swift 6.3.

SWIFT ?= swift
PREFIX ?= /usr/local
SHELL := /bin/bash
# portctl and wordcount need more than the default trait. SwiftPM passes the traits to the compiler in the order of a set.
# With another order, or with other traits, it builds everything again.
TRAITS = --traits Ports,CommandLine
comma := ,
PROGRESS = SWIFT_DETERMINISTIC_HASHING=1 .ci/progress
# A build that shows that it goes on.
BUILD = $(PROGRESS) $(SWIFT) build
FORMATTED := Package.swift .ci/floors.swift Sources Tests Examples Benchmarks/Package.swift Benchmarks/Sources

.PHONY: help run test test-all verify simulate test-tsan test-asan examples companions migrate install install-portctl install-library soak soak-ports fuzz model bench bench-all bench-check figures bench-figures figures-check docs docs-preview format lint clean \
	dependencies

define HELP
Begin
  make run           build wordcount, and count the words of this repository
  make test          build everything, run all examples and the tests
  make test-all      the long tests, the others once more by ZeroMQ alone, and
                     those of the companions and of ports-migrate
  make examples      run the examples, and compare their output
  make companions    run the examples in other loops, as a service, with
                     metrics and traces, and over NATS
  make migrate       build ports-migrate, and run its tests
  make docs-preview  build the documentation, and show it in a browser

Install
  make install       portctl and the CFMessagePort functions for C,
                     in /usr/local, or in PREFIX=<folder>; with NATS=1,
                     portctl also looks at servers on NATS, as it does by
                     itself where libnats is installed

Change something
  make format        lay out the source text
  make lint          check the layout, the floors of the modules, portctl's
                     pages, and the figures of the documentation
  make docs          build the documentation in .build/documentation
  make test-tsan     run the tests under the thread sanitizer
  make test-asan     run the tests under the address sanitizer
  make clean         remove all that was built

Take your time
  make bench         measure beside libzmq, sockets and others: 3 minutes
  make bench-all     the same beside sd-bus, libqb, grpc-swift and NATS
  make figures       measure, and write the chart and the tables of the pages
  make bench-check   count the instructions of a message with valgrind
  make simulate      play whole machines, each with faults of its own:
                     SEEDS="<first> <last>", a thousand by default
  make soak          50,000 scripts beside CFRunLoop, then load:
                     SOAK_MINUTES=<number>, half an hour by default
  make fuzz          feed random bytes to each decoder:
                     FUZZ_SECONDS=<number>, a minute each by default
  make verify        all of this, as before a release: three hours, or
                     VERIFY="<part> <part>"; prints what was shown
  make model         check the models of queues, rings, moves and claims of
                     names in all orders with Spin, and those of queues and
                     rings with GenMC where it is installed: 5 minutes
endef
export HELP

help:
	@echo "$$HELP"

# Installs packages if pkg-config does not find a library, or there is no command of a name.
REQUIRE = $(call INSTALL,pkg-config --exists $(1),$(1),$(2))
REQUIRE_COMMAND = $(call INSTALL,PATH="$$PATH:/usr/sbin" command -v $(1) >/dev/null,$(1),$(2))
INSTALL = if ! $(1) 2>/dev/null; then \
		if ! command -v apt-get >/dev/null; then \
			echo "error: $(2) is missing and there is no apt-get: install $(3) by hand" >&2; exit 1; \
		fi; \
		sudo=; \
		if [ "$$(id -u)" != 0 ]; then \
			sudo=sudo; \
			if ! command -v sudo >/dev/null; then \
				echo "error: $(2) is missing and there is no sudo: run 'apt-get install $(3)' as root" >&2; exit 1; \
			fi; \
		fi; \
		echo "installing $(3)"; \
		export DEBIAN_FRONTEND=noninteractive; \
		$$sudo apt-get update -qq && $$sudo apt-get install -y -qq $(3) >/dev/null || { \
			echo "error: $(3) could not be installed; see what apt-get says above" >&2; exit 1; }; \
	fi

dependencies:
	@$(call REQUIRE,libzmq,libzmq3-dev pkg-config)

run: dependencies
	@[ -d .build/release ] || echo "Building wordcount: the first build takes two to three minutes on two processors."
	@$(BUILD) $(TRAITS) -c release --product wordcount
	@echo; echo "wordcount --summary Sources Examples Tests"
	@"$$($(SWIFT) build -c release --show-bin-path)/wordcount" --summary Sources Examples Tests

# Tests that compile programs, play machines or draw thousands of values take two fifths of the time.
LONG_TESTS := \.(CProgram|OtherLanguages|GeneratedScript|GeneratedValue|Header|RingShortage|LargeBytes|Recording|Simulation|Snippet)Tests/

test: dependencies
	@$(call REQUIRE_COMMAND,python3,python3)
	@[ -d .build/debug ] || echo "Building the library, the examples and the tests: the first build takes several minutes."
	@$(BUILD) $(TRAITS) --build-tests
	@$(MAKE) --no-print-directory examples BUILD=:
	@SWIFT="$(SWIFT)" .ci/tests --skip '$(LONG_TESTS)'

# The rest of what a change can break.
test-all: dependencies
	@$(call REQUIRE_COMMAND,g++,g++)
	@$(BUILD) $(TRAITS) --build-tests
	@echo "the long tests"
	@SWIFT="$(SWIFT)" .ci/tests --filter '$(LONG_TESTS)'
	@echo "the tests of ports once more, by ZeroMQ alone"
	@SWIFT="$(SWIFT)" PORTS_SHARED_MEMORY=never .ci/tests --filter '^(PortsTests|TypedPortsTests)\.'
	@$(MAKE) --no-print-directory companions
	@$(MAKE) --no-print-directory migrate

# libzmq is not instrumented; the sanitizers see what our own code does around it. Some tests ask for more memory than
# there is, the generated scripts would take half an hour, and side by side the tests would be too slow for themselves.
# Leaks: of what an object's weak references share, the sanitizer does not see the pointer. An exit that does not wait for
# a stopped peer leaves libzmq's thread behind.
test-tsan test-asan: export ORACLE_SCRIPTS ?= 500
test-tsan test-asan: export TSAN_OPTIONS ?= allocator_may_return_null=1:report_thread_leaks=0
test-tsan test-asan: export ASAN_OPTIONS ?= allocator_may_return_null=1:detect_leaks=0

TSAN = $(TRAITS) --sanitize thread -Xswiftc -DTHREAD_SANITIZER --scratch-path .build/tsan
test-tsan: dependencies
	@$(BUILD) --build-tests $(TSAN)
	@$(SWIFT) test --skip-build --no-parallel --disable-xctest $(TSAN)

ASAN = $(TRAITS) --sanitize address --scratch-path .build/asan
test-asan: dependencies
	@$(BUILD) --build-tests $(ASAN)
	@$(SWIFT) test --skip-build --no-parallel --disable-xctest $(ASAN)

# Runs programs, and compares what they print. The command of Examples/IdleWork is idle-work, and
# Examples/IdleWork/expected.txt says what it prints.
COMPARE = failed=; \
	for expected in $(1); do \
		name=$$(basename "$$(dirname "$$expected")" | sed -E 's/([A-Z])([A-Z][a-z])/\1-\2/g; s/([a-z0-9])([A-Z])/\1-\2/g' | tr A-Z a-z); \
		echo; echo "$$name"; \
		printed=$$(timeout 20 "$$bin/$$name") || failed+=" $$name"; \
		echo "$$printed"; \
		diff -u --label expected --label printed "$$expected" <(echo "$$printed") || failed+=" $$name"; \
	done; \
	echo; if [ -n "$$failed" ]; then echo "error: not as expected:$$failed" >&2; exit 1; fi

# Those in C are compiled as their users do it.
examples: dependencies
	@$(BUILD) $(TRAITS)
	@bin=$$PWD/.build/debug; set -e; \
	$(MAKE) --no-print-directory install-library LIBRARY="$$bin/libCFPorts.so" DESTDIR= PREFIX="$$bin/c"; \
	export PKG_CONFIG_PATH="$$bin/c/lib/pkgconfig"; \
	$(TOOLCHAIN)/bin/clang -Wall Examples/MessagePortsInC/main.c -o "$$bin/message-ports-in-c" \
		$$(pkg-config --cflags --libs CoreFoundationPorts)
	@bin=.build/debug; $(call COMPARE,Examples/*/expected.txt)

# A package of their own, because the library does without the other packages. A release build, because some bugs show
# only there. Debug information and testable imports, which nothing here needs, would take a quarter more time.
COMPANIONS = -c release --package-path Examples/Companions --scratch-path .build/companions -debug-info-format none
companions: dependencies
	@$(call REQUIRE,glib-2.0,libglib2.0-dev)
	@$(call REQUIRE,libnats,libnats-dev)
	@$(call REQUIRE_COMMAND,nats-server,nats-server)
	@$(call REQUIRE_COMMAND,openssl,openssl)
	@$(call REQUIRE_COMMAND,ip,iproute2)
	@$(BUILD) $(COMPANIONS)
	@bin=.build/companions/release; $(call COMPARE,Examples/Companions/Sources/*/expected.txt)
	@.build/companions/release/service-check
	@$(PROGRESS) $(SWIFT) test --disable-xctest --disable-testable-imports $(COMPANIONS)

# A package of its own, too, because nobody else needs swift-syntax.
MIGRATE = --package-path Sources/Mac/ports-migrate --scratch-path .build/migrate
migrate:
	@$(BUILD) $(MIGRATE) --build-tests
	@$(SWIFT) test $(MIGRATE) --skip-build --disable-xctest

install: install-portctl install-library

# With Swift's libraries inside: it runs where there is no Swift, but it needs libzmq. It knows NATS, and needs libnats,
# where libnats is installed. NATS=1 installs libnats, and NATS= builds a portctl without it.
NATS ?= $(shell pkg-config --exists libnats 2>/dev/null && echo 1)
install-portctl: dependencies
	@if [ -n "$(NATS)" ]; then $(call REQUIRE,libnats,libnats-dev); fi
	@$(BUILD) $(TRAITS)$(if $(NATS),$(comma)NATS) -c release --scratch-path .build/install --static-swift-stdlib \
		-Xlinker -s --product portctl
	@bin=$$($(SWIFT) build -c release --scratch-path .build/install --show-bin-path)/portctl; \
	to="$(DESTDIR)$(PREFIX)"; share="$$to/share"; set -e; \
	install -D -m 755 "$$bin" "$$to/bin/portctl"; \
	install -d "$$to/lib/systemd/user"; \
	sed 's|^ExecStart=portctl|ExecStart=$(PREFIX)/bin/portctl|' Sources/Tools/portctl/Units/ports-activator.service \
		> "$$to/lib/systemd/user/ports-activator.service"; \
	for completions in bash:bash-completion/completions/portctl zsh:zsh/site-functions/_portctl \
		fish:fish/vendor_completions.d/portctl.fish; do \
		install -d "$$share/$$(dirname "$${completions#*:}")"; \
		"$$bin" --generate-completion-script "$${completions%%:*}" > "$$share/$${completions#*:}"; \
	done; \
	echo "installed $$to/bin/portctl"

# The folder of Swift's toolchain, which has CoreFoundation's library and headers.
TOOLCHAIN = $$($(SWIFT) -print-target-info | sed -n 's|.*"runtimeResourcePath": "\(.*\)/lib/swift".*|\1|p')

# The functions of CFMessagePort and its like for C: a library, what CoreFoundation's headers lack, and a pkg-config file. With
# LIBRARY=<file> this one is installed, and none is built.
install-library: dependencies
	@library="$(LIBRARY)"; set -e; \
	if [ -z "$$library" ]; then \
		$(BUILD) $(TRAITS) -c release --product CFPorts -Xlinker -s -Xlinker -soname=libCoreFoundationPorts.so; \
		library="$$($(SWIFT) build -c release --show-bin-path)/libCFPorts.so"; \
	fi; \
	to="$(DESTDIR)$(PREFIX)"; \
	install -D -m 755 "$$library" "$$to/lib/libCoreFoundationPorts.so"; \
	headers=Sources/Mac/CCoreFoundationPorts; include="$$to/include/swift-ports"; \
	install -d "$$to/lib/pkgconfig"; \
	for folder in . CoreFoundation dispatch mach servers; do \
		install -d "$$include/$$folder"; \
		install -m 644 $$headers/$$folder/*.h "$$include/$$folder"; \
	done; \
	sed "s|@TOOLCHAIN@|$(TOOLCHAIN)|" $$headers/CoreFoundationPorts.pc.in > "$$to/lib/pkgconfig/CoreFoundationPorts.pc"; \
	echo "installed $$to/lib/libCoreFoundationPorts.so"

# Whole machines with the shipped library in one process. SIMULATE="--tell 7" hands other options over. The library is
# built for it with its internal names, so apart from other release builds.
SEEDS ?= 1 1000
SIMULATE ?= $(SEEDS)
SIMULATION = $(SWIFT) build -c release --product simulate -Xswiftc -enable-testing --scratch-path .build/simulation
simulate: dependencies
	@$(PROGRESS) $(SIMULATION)
	@"$$($(SIMULATION) --show-bin-path)/simulate" $(SIMULATE)

# ORACLE_SEED=<number> starts from another seed than 0. The long forms of the tests of load take some minutes, and
# SOAK_MINUTES=<number> says how long all of them mixed go on after that.
soak: dependencies
	@$(BUILD) $(TRAITS) --build-tests
	@ORACLE_SCRIPTS=50000 $(SWIFT) test $(TRAITS) --skip-build --disable-xctest --filter GeneratedScriptTests
	@$(MAKE) --no-print-directory soak-ports

LOAD_PORTS := Load|Kill|Liveness|NameScale|BackPressure|NameRace|Ending|Exit|HostileInput|Limit|Connection|Process|Ring|Loan|MovingPort|MovingPortKill|RequestOutcome
LOAD_TESTS := PortsTests\.($(LOAD_PORTS))Tests|(TypedPorts|XPC)Tests\.GrowthTests|WorkersTests\.(Pool|WorkerPool).*Tests|ActivationTests\.ActivatorTests
soak-ports: dependencies
	@$(BUILD) $(TRAITS) --build-tests
	@SOAK=1 $(SWIFT) test $(TRAITS) --skip-build --disable-xctest --no-parallel --filter '$(LOAD_TESTS)'
	@SOAK=1 $(SWIFT) test $(TRAITS) --skip-build --disable-xctest --no-parallel --filter 'PortsTests\.SoakTests'

# Swift's own choice of coverage is one that libFuzzer does not read any more, and in a release build the options for
# another are lost for most files. What is found stays in .build/fuzz. What crashes belongs into Tests/Core/Fuzz/Corpus,
# which `make test` tries each time.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= frame control entry value answer ring descriptors network
FUZZ_BUILD = SWIFT_PORTS_FUZZ=1 $(SWIFT) build --scratch-path .build/fuzz --product Fuzz \
	--sanitize fuzzer --sanitize address \
	-Xswiftc -sanitize-coverage=edge,inline-8bit-counters,pc-table,trace-cmp
fuzz: dependencies
	@$(FUZZ_BUILD)
	@bin=$$($(FUZZ_BUILD) --show-bin-path)/Fuzz; export FUZZ_TARGET FUZZ_SEEDS; \
	export SWIFT_BACKTRACE=enable=no ASAN_OPTIONS=detect_leaks=0; \
	for FUZZ_TARGET in $(FUZZ_TARGETS); do \
		found=.build/fuzz/found/$$FUZZ_TARGET; FUZZ_SEEDS=.build/fuzz/seeds/$$FUZZ_TARGET; \
		mkdir -p $$found $$FUZZ_SEEDS; \
		echo; echo "fuzzing $$FUZZ_TARGET for $(FUZZ_SECONDS) s"; \
		"$$bin" -runs=0 2>/dev/null || exit 1; \
		"$$bin" -max_total_time=$(FUZZ_SECONDS) -max_len=1024 -detect_leaks=0 -print_final_stats=1 \
			-artifact_prefix=.build/fuzz/$$FUZZ_TARGET- $$found Tests/Core/Fuzz/Corpus/$$FUZZ_TARGET $$FUZZ_SEEDS 2>&1 \
			| grep -vE "^#[0-9]+\s+(NEW|REDUCE|RELOAD)|^\s*$$" ; \
		[ "$${PIPESTATUS[0]}" = 0 ] || exit 1; \
	done

# Everything that a release has to pass, and a table of what it has shown.
verify: dependencies
	@.ci/verify $(VERIFY)

# The models repeat LocalQueue, RingSender, RingReceiver, HandOver, Adoption, FinishingPorts, NameClaim and Sweep in other
# languages: a change there belongs into the models, too.
model:
	@$(call REQUIRE_COMMAND,spin,spin)
	@$(call REQUIRE_COMMAND,cc,gcc)
	@.ci/model

# BENCH="ports --only 'round trip' --rounds 3 --json now.json --compare before.json" hands options over.
bench: dependencies
	@$(BUILD) -c release --package-path Benchmarks --product bench
	@"$$($(SWIFT) build -c release --package-path Benchmarks --show-bin-path)/bench" $(BENCH)

# Also writes the chart and the tables of the pages.
figures: bench-figures
	@.ci/figures .build/bench.json
bench-figures: BENCH = --json $(CURDIR)/.build/bench.json
bench-figures: bench

# Fails when messages have travelled in another way since the pages' figures were measured.
figures-check:
	@.ci/figures --fresh

# A build of its own, as what else `bench` is made of changes with the peers. The output names those that are missing.
# What is pinned for them is not kept: `make bench` would fetch all of it.
BENCH_ALL_IN = --package-path Benchmarks --scratch-path Benchmarks/.build/all
BENCH_ALL = $(SWIFT) build -c release $(BENCH_ALL_IN) --product bench
bench-all: dependencies
	@for library in libsystemd libqb libnats; do \
		if ! pkg-config --exists $$library; then missing+=" $$library-dev"; fi; \
	done; \
	if ! PATH="$$PATH:/usr/sbin" command -v nats-server >/dev/null; then missing+=" nats-server"; fi; \
	if [ -n "$$missing" ]; then \
		echo "installing$$missing"; \
		sudo=; if [ "$$(id -u)" != 0 ]; then sudo=sudo; fi; export DEBIAN_FRONTEND=noninteractive; \
		$$sudo apt-get update -qq && $$sudo apt-get install -y -qq $$missing >/dev/null || \
			echo "not installed:$$missing; see what is said above" >&2; \
	fi
	@pins=Benchmarks/Package.resolved; kept=Benchmarks/.build/Package.resolved; mkdir -p Benchmarks/.build; \
	cp $$pins $$kept 2>/dev/null; trap 'mv -f $$kept $$pins 2>/dev/null || rm -f $$pins' EXIT; \
	BENCH_PEERS=SocketPort; \
	if pkg-config --exists libsystemd; then BENCH_PEERS+=" sd-bus"; fi; \
	if pkg-config --exists libqb; then BENCH_PEERS+=" libqb"; fi; \
	if pkg-config --exists libnats; then BENCH_PEERS+=" NATS"; fi; \
	if BENCH_PEERS="$$BENCH_PEERS grpc-swift" $(SWIFT) package $(BENCH_ALL_IN) resolve; then \
		BENCH_PEERS+=" grpc-swift"; \
	fi; \
	export BENCH_PEERS; \
	$(BENCH_ALL) && "$$($(BENCH_ALL) --show-bin-path)/bench" $(BENCH)

# Builds only what the check needs. UPDATE=--update keeps the new counts.
bench-check: dependencies
	@if ! command -v valgrind >/dev/null; then echo "error: install valgrind to count instructions" >&2; exit 1; fi
	@$(BUILD) -c release --package-path Benchmarks --product instructions
	@Benchmarks/check-instructions \
		"$$($(SWIFT) build -c release --package-path Benchmarks --show-bin-path)/instructions" $(UPDATE)

# One archive of all modules. Warnings are errors: a link in a comment that leads nowhere is one. The plugin builds once for
# each module. Without the order of traits that PROGRESS keeps, each of these builds would compile everything again.
DOCUMENTED = SwiftPortsGuide RunLoops Ports TypedPorts FoundationCoding Workers Activation Systemd PortsInspection PortsMetrics PortsTracing NATSPorts FoundationPorts CoreFoundationPorts XPC
docs: dependencies
	@$(call REQUIRE,libnats,libnats-dev)
	@mkdir -p .build/documentation
	@SWIFT_PORTS_DOCS=1 $(PROGRESS) $(SWIFT) package --enable-all-traits --scratch-path .build/docs \
		--allow-writing-to-directory .build/documentation \
		generate-documentation --enable-experimental-combined-documentation $(DOCUMENTED:%=--target %) \
		--default-code-listing-language swift --warnings-as-errors --output-path .build/documentation
	@.ci/documentation-root .build/documentation $(DOCUMENTED)
	@echo "To look at the documentation, run make docs-preview."

# For this machine alone; DOCS_PORT=<number> takes another port.
DOCS_PORT ?= 8080
docs-preview: docs
	@echo "http://localhost:$(DOCS_PORT)/"
	@python3 -m http.server $(DOCS_PORT) --bind 127.0.0.1 --directory .build/documentation

format:
	@$(SWIFT) format format --in-place -r $(FORMATTED)

lint:
	@$(SWIFT) format lint --strict -r $(FORMATTED)
	@$(SWIFT) .ci/floors.swift
	@.ci/pages Sources/Tools/portctl/Pages
	@.ci/figures --check
	@if grep -rl '^import ZeroMQ' Sources/Core/Ports | grep -v Carriers/ZeroMQ; then \
		echo "error: only Carriers/ZeroMQ uses libzmq" >&2; exit 1; \
	fi
	@for patch in Tests/Simulation/Plants/*.patch Tests/Simulation/Plants/Open/*.patch; do \
		git apply --check "$$patch" || { echo "error: $$patch has to follow the code" >&2; exit 1; }; \
	done

clean:
	@rm -rf .build Benchmarks/.build
