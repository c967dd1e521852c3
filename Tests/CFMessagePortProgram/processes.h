// What the program does for tests with several processes: behaviour serve NAME, and so on.

// Answers until id 99, and then once more.
static CFDataRef serveOthers(CFMessagePortRef port, SInt32 id, CFDataRef data, void *info) {
    if (id == 99) CFRunLoopStop(CFRunLoopGetCurrent());
    return answer(port, id, data, NULL);
}

static CFRunLoopRef watchingLoop;

static void noteEnd(CFMessagePortRef port, void *info) {
    puts("invalid");
    fflush(stdout);
    // Also when the loop does not run yet.
    CFRunLoopPerformBlock(watchingLoop, kCFRunLoopDefaultMode, ^{ CFRunLoopStop(CFRunLoopGetCurrent()); });
    CFRunLoopWakeUp(watchingLoop);
}

static int run_as_other(const char *what, const char *name, const char *program) {
    CFStringRef text = CFStringCreateWithCString(NULL, name, kCFStringEncodingUTF8);
    if (!strcmp(what, "serve")) {
        CFMessagePortRef port = CFMessagePortCreateLocal(NULL, text, serveOthers, NULL, NULL);
        if (!port) return 3;
        schedule(port, kCFRunLoopDefaultMode);
        puts("ready");
        fflush(stdout);
        CFRunLoopRun();
        CFMessagePortInvalidate(port);
        CFRelease(port);
        CFRelease(text);
        return failures;
    }
    CFMessagePortRef remote = CFMessagePortCreateRemote(NULL, text);
    if (!remote) return 3;
    if (!strcmp(what, "watch")) {
        watchingLoop = CFRunLoopGetCurrent();
        CFMessagePortSetInvalidationCallBack(remote, noteEnd);
        puts("ready");
        fflush(stdout);
        // A mode needs something to run with.
        CFMessagePortRef own = makeLocal(NULL, NULL);
        schedule(own, kCFRunLoopDefaultMode);
        CFRunLoopRun();
        EXPECT(!CFMessagePortIsValid(remote));
        CFMessagePortInvalidate(own);
        CFRelease(own);
        CFRelease(remote);
        CFRelease(text);
        return failures;
    }
    if (!strcmp(what, "tell")) {
        for (SInt32 id = 1; id <= 500; id++)
            EXPECT(CFMessagePortSendRequest(remote, id, NULL, 10, 0, NULL, NULL) == kCFMessagePortSuccess);
        // The end of the process loses nothing.
        return failures;
    }
    CFDataRef data = bytes("from C"), reply = NULL;
    SInt32 result = CFMessagePortSendRequest(remote, 33, data, 10, 30, kCFRunLoopDefaultMode, &reply);
    if (result) return 10 - result;
    fwrite(CFDataGetBytePtr(reply), 1, (size_t)CFDataGetLength(reply), stdout);
    CFRelease(reply);
    CFRelease(data);
    CFRelease(remote);
    CFRelease(text);
    return failures;
}
