import Glibc
import OwnThread
import TestSupport
import Testing

/// The example under the real `systemd --user`, in namespaces of its own, where the machine has it and allows that. One
/// manager runs at a time, because all share the machine's control groups.
@Suite(.ownThread, .serialized) struct SystemdTests {
    /// The name of the unit. Tests of another process may run a manager at the same time.
    private static let unit = "swift-ports-\(getpid())"

    /// Starts a manager for a home folder, `$1`, calls the function `use`, and ends everything with the shell.
    private static func script(_ use: String) -> String {
        """
        set -eu
        mount -t tmpfs tmpfs /run
        export HOME="$1" XDG_RUNTIME_DIR=/run/user SYSTEMD_LOG_TARGET=console PATH="$PATH:/lib/systemd:/usr/lib/systemd"
        mkdir -p -m 700 /run/user
        # By this folder systemd knows that it has started the machine.
        mkdir -p /run/systemd/system
        control() { timeout 30 systemctl --user --no-pager "$@"; }
        use() {
        \(use)
        }
        # Its own units, and no others.
        SYSTEMD_UNIT_PATH="$HOME/.config/systemd/user:" systemd --user --unit=sockets.target </dev/null >&2 &
        for try in $(seq 300); do
            [ -S /run/user/systemd/private ] && control is-system-running >/dev/null 2>&1 && break
            kill -0 $!
            sleep 0.1
        done
        use
        """
    }

    /// Unprivileged users get a user namespace, too.
    private static func run(_ use: String, home: String) -> Run {
        Run(
            ["unshare"] + (geteuid() == 0 ? [] : ["--map-root-user"])
                + [
                    "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/bin/sh", "-c", script(use), "sh",
                    home,
                ],
            environment: ["PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
    }

    private static let isThere: Bool = {
        let folder = TemporaryFolder()
        return run("control show --property=Version", home: folder.path).child.wait() == 0
    }()

    /// A home folder with the example and its unit.
    private func makeHome() -> TemporaryFolder {
        let home = TemporaryFolder()
        let shell =
            #"mkdir -p "$0/.local/bin" "$0/.config/systemd/user"; ln -s "$1" "$0/.local/bin/daemon"; "#
            + #"cp "$2" "$0/.config/systemd/user/$3.service"; echo "Good day" >"$0/.config/greeting""#
        let made = Child(["/bin/sh", "-c", shell, home.path, "\(Child.folder)/daemon", Unit.path, Self.unit])
        #expect(made.wait() == 0)
        return home
    }

    @Test(.enabled(if: isThere, "systemd --user cannot run here"))
    func `systemd starts, reloads, restarts and stops the daemon`() throws {
        let home = makeHome()
        let use = #"""
            show() { control show \#(Self.unit) --property="$1" --value; }
            control start \#(Self.unit)
            show ActiveState
            show StatusText
            show NFileDescriptorStore
            show WatchdogUSec
            "$HOME/.local/bin/daemon" ask Ann
            echo "Good night" >"$HOME/.config/greeting"
            control reload \#(Self.unit)
            # systemd waits for the daemon only with Type=notify-reload.
            for try in $(seq 600); do show StatusText | grep -q night && break; sleep 0.1; done
            "$HOME/.local/bin/daemon" ask Ben
            kill -KILL "$(show MainPID)"
            "$HOME/.local/bin/daemon" ask Cem
            "$HOME/.local/bin/daemon" report
            control stop \#(Self.unit)
            show ActiveState
            show Result
            """#
        let run = Self.run(use, home: home.path)
        #expect(run.child.wait() == 0)
        let output = String(decoding: run.output, as: UTF8.self).split(separator: "\n")
        #expect(
            output == [
                "active", "says “Good day”", "1", "10s", "Good day, Ann!", "Good night, Ben!",
                "Good night, Cem!", "greetings: 3", "inactive", "success",
            ], "\(String(decoding: run.errors, as: UTF8.self))")
    }

    @Test(.enabled(if: isThere, "systemd --user cannot run here"))
    func `systemd starts an activator, whose services start with their first message`() {
        let home = TemporaryFolder()
        let use = """
            units="$HOME/.config/systemd/user"
            services="$HOME/.config/swift-ports/services"
            mkdir -p "$units" "$services"
            sed 's|ExecStart=|ExecStart=\(Child.folder)/|' '\(Unit.folder)/Sources/Tools/portctl/Units/ports-activator.service' \
                >"$units/ports-activator.service"
            printf '[Service]\nExecStart=\(Child.folder)/ActivationTestHelper\n' >"$services/test.service"
            show() { control show ports-activator --property="$1" --value; }
            control daemon-reload
            control start ports-activator
            show ActiveState
            show StatusText
            show WatchdogUSec
            \(Child.folder)/ActivationTestHelper ask >/dev/null
            \(Child.folder)/portctl services | sed 1d | awk '{ print $1, $2 }'
            cp "$services/test.service" "$services/other.service"
            control reload ports-activator
            for try in $(seq 600); do show StatusText | grep -q 2 && break; sleep 0.1; done
            \(Child.folder)/portctl services | sed 1d | awk '{ print $1, $2 }'
            control stop ports-activator
            show ActiveState
            show Result
            """
        let run = Self.run(use, home: home.path)
        #expect(run.child.wait() == 0)
        let output = String(decoding: run.output, as: UTF8.self).split(separator: "\n")
        #expect(
            output == [
                "active", "services: 1", "30s", "test running", "other waiting", "test running", "inactive",
                "success",
            ], "\(String(decoding: run.errors, as: UTF8.self))")
    }

    @Test(.enabled(if: isThere, "systemd --user cannot run here"), arguments: ["loop", "tasks", "actor", "server"])
    func `systemd restarts a service that is stuck`(_ way: String) {
        let home = TemporaryFolder()
        let use = """
            mkdir -p "$HOME/.config/systemd/user"
            cat >"$HOME/.config/systemd/user/\(Self.unit).service" <<END
            [Service]
            Type=notify
            ExecStart=\(Child.folder)/SystemdTestHelper \(way)
            # A backtrace of the killed process takes seconds on a busy machine.
            Environment=SWIFT_BACKTRACE=enable=no
            WatchdogSec=3
            Restart=on-failure
            ExecStopPost=/bin/sh -c 'echo \\$SERVICE_RESULT >>$HOME/results'
            END
            show() { control show \(Self.unit) --property="$1" --value; }
            control daemon-reload
            control start \(Self.unit)
            first="$(show MainPID)"
            kill -USR1 "$first"
            for try in $(seq 600); do [ "$(show NRestarts)" = 1 ] && break; sleep 0.1; done
            # Until the next process is ready.
            control start \(Self.unit)
            [ "$(show MainPID)" != "$first" ] && show ActiveState
            head -n 1 "$HOME/results"
            """
        let run = Self.run(use, home: home.path)
        #expect(run.child.wait(before: .now + .seconds(120)) == 0)
        let errors = String(decoding: run.errors, as: UTF8.self)
        #expect(String(decoding: run.output, as: UTF8.self) == "active\nwatchdog\n", "\(errors)")
    }
}
