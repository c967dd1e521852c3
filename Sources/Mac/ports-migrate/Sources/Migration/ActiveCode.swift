import SwiftSyntax

/// Visits the code that is built on Linux: no block that `#if` leaves to Apple's systems.
class ActiveCodeVisitor: SyntaxVisitor {
    init() { super.init(viewMode: .sourceAccurate) }

    final override func visit(_ node: IfConfigDeclSyntax) -> SyntaxVisitorContinueKind {
        var isTaken = false
        for clause in node.clauses where !isTaken {
            let holds = clause.condition.map(Linux.holds) ?? true
            if holds == false { leave(clause, of: node) }
            if holds != false, let elements = clause.elements { walk(Syntax(elements)) }
            isTaken = holds == true
        }
        return .skipChildren
    }

    /// The condition of a block's clause does not hold on Linux.
    func leave(_ clause: IfConfigClauseSyntax, of block: IfConfigDeclSyntax) {}
}

/// Facts about a build on Linux.
enum Linux {
    /// Whether a module may be one of Apple's, by its name.
    static func mayLack(_ module: String) -> Bool {
        genericNames.contains(module) || module.hasSuffix("Kit") || module.hasSuffix("UI") || module.hasPrefix("AV")
            || module.hasPrefix("Core") && !["CoreFoundation", "CoreFoundationPorts"].contains(module)
    }

    /// Modules of Apple's whose names others have, too.
    private static let genericNames: Set<String> = [
        "Accessibility", "Accounts", "Cinematic", "Collaboration", "Contacts", "Intents", "Messages",
        "NotificationCenter", "Photos", "Speech", "Symbols", "Translation", "Vision",
    ]

    /// Modules of Apple's that it lacks.
    static let missingModules = Set(
        """
        Accelerate ActivityKit AddressBook AdSupport AppIntents AppKit AppleArchive \
        ApplicationServices AppTrackingTransparency AudioToolbox AudioUnit AuthenticationServices \
        AutomaticAssessmentConfiguration AVFAudio AVFoundation AVKit BackgroundAssets BackgroundTasks BrowserEngineKit \
        BusinessChat CallKit Carbon CarPlay CFNetwork ClassKit ClockKit CloudKit Cocoa \
        ColorSync Combine CommonCrypto ContactsUI CoreAudio CoreAudioKit CoreAudioTypes CoreBluetooth \
        CoreData CoreGraphics CoreHaptics CoreImage CoreLocation CoreLocationUI CoreMedia CoreMediaIO CoreMIDI CoreML \
        CoreMotion CoreNFC CoreServices CoreSpotlight CoreTelephony CoreText CoreTransferable CoreVideo CoreWLAN \
        CreateML CryptoKit CryptoTokenKit Darwin DeveloperToolsSupport DeviceActivity DeviceCheck DiscRecording \
        DiskArbitration EndpointSecurity EventKit EventKitUI ExceptionHandling ExecutionPolicy ExtensionFoundation \
        ExtensionKit ExternalAccessory FamilyControls FileProvider FileProviderUI FinderSync ForceFeedback FSKit \
        GameController GameKit GameplayKit GLKit HealthKit HomeKit Hypervisor IdentityLookup ImageIO InputMethodKit \
        IntentsUI IOBluetooth IOKit IOSurface IOUSBHost JavaScriptCore KernelManagement LatentSemanticMapping \
        LinkPresentation LocalAuthentication LocalAuthenticationEmbeddedUI MachO ManagedSettings MapKit \
        MediaAccessibility MediaLibrary MediaPlayer MediaToolbox MessageUI Metal MetalFX MetalKit \
        MetalPerformanceShaders MetricKit MLCompute ModelIO MultipeerConnectivity MusicKit NaturalLanguage \
        NearbyInteraction NetFS Network NetworkExtension ObjectiveC OpenAL OpenCL OpenDirectory \
        OpenGL os OSAKit OSLog ParavirtualizedGraphics PassKit PDFKit PencilKit PHASE PhotosUI PreferencePanes \
        ProximityReader PushKit PushToTalk Quartz QuartzCore QuickLook QuickLookThumbnailing QuickLookUI RealityKit \
        ReplayKit SafariServices SceneKit ScreenCaptureKit ScreenSaver ScreenTime ScriptingBridge Security \
        SecurityFoundation SecurityInterface SensitiveContentAnalysis SensorKit ServiceManagement SharedWithYou \
        ShazamKit simd SoundAnalysis SpriteKit StoreKit StoreKitTest SwiftData SwiftUI SyncServices \
        System SystemConfiguration SystemExtensions ThreadNetwork TranslationUI TVML TWAIN UIKit \
        UniformTypeIdentifiers UserNotifications UserNotificationsUI VideoSubscriberAccount VideoToolbox \
        Virtualization VisionKit vmnet WatchConnectivity WatchKit WeatherKit WebKit WidgetKit WorkoutKit
        """.split { $0 == " " || $0.isNewline }.map(String.init))

    /// Whether a condition of `#if` holds; nil when that depends on how the program is built.
    static func holds(_ condition: ExprSyntax) -> Bool? {
        if let call = condition.as(FunctionCallExprSyntax.self), let argument = call.arguments.first {
            let value = argument.expression.trimmedDescription
            switch call.calledExpression.trimmedDescription {
            case "os": return value == "Linux"
            case "canImport": return missingModules.contains(value) ? false : nil
            case "targetEnvironment": return false
            default: return nil
            }
        }
        if let not = condition.as(PrefixOperatorExprSyntax.self), not.operator.text == "!" {
            return holds(not.expression).map { !$0 }
        }
        if let tuple = condition.as(TupleExprSyntax.self), let only = tuple.elements.first, tuple.elements.count == 1 {
            return holds(only.expression)
        }
        if let sequence = condition.as(SequenceExprSyntax.self) { return holds(Array(sequence.elements)[...]) }
        return nil
    }

    /// `&&` binds closer than `||`.
    private static func holds(_ elements: ArraySlice<ExprSyntax>) -> Bool? {
        for (name, decisive) in [("||", true), ("&&", false)] {
            let parts = elements.split { $0.as(BinaryOperatorExprSyntax.self)?.operator.text == name }
            guard parts.count > 1 else { continue }
            let values = parts.map(holds)
            if values.contains(decisive) { return decisive }
            return values.contains(nil) ? nil : !decisive
        }
        return elements.count == 1 ? elements.first.flatMap(holds) : nil
    }
}
