import Glibc
import RunLoops
import TestSupport

// The other processes of the tests: for what concerns a whole process. Each ends with status 0 when all is well.

// Whatever becomes of the test, nothing is left behind.
alarm(120)

do {
    switch CommandLine.arguments.dropFirst().first {
    case "main": try askForMain()
    case "threads": try startAndStopThreads()
    case "niceness": try askForTooMuch()
    case "clock": try setTheClock()
    case "dates": dateATimerOverAndOver()
    case "descriptors": try runOutOfDescriptors()
    case "instances": try runOutOfInstances()
    case "watches": try runOutOfWatches()
    case "unmount": try unmountWhatIsWatched()
    case "permission": try watchWithoutPermission()
    case "idle": try watchAnIdleLoop()
    case "misuse-local": try callALocalClosureElsewhere()
    case "misuse-timer": try addALocalTimerElsewhere()
    case "misuse-main-actor": try callTheMainActorElsewhere()
    case "misuse-actor": try assumeAnActorElsewhere()
    case "misuse-driven-callout": try driveOutOfTurn(inCallout: true)
    case "misuse-driven-inner": try driveOutOfTurn(inCallout: false)
    case "misuse-eventpoll": try closeBehindTheLoopsBack("eventpoll")
    case "misuse-eventfd": try closeBehindTheLoopsBack("eventfd")
    case "misuse-timerfd": try closeBehindTheLoopsBack("timerfd")
    case "signal-handlers": try stopALoopInSignalHandlers()
    case "fork": try forkWithLoops()
    case "main-thread": try serveTheMainThread()
    case let command: fail("unknown command \(command ?? "")")
    }
} catch {
    fail("\(error)")
}
