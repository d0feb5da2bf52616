// swift-tools-version:5.7
// Use it by path: .package(path: "transformer.h/examples/ios")
import PackageDescription

let package = Package(
    name: "Transformer",
    platforms: [.iOS(.v13), .macOS(.v11)],
    products: [.library(name: "Transformer", targets: ["Transformer"])],
    targets: [
        .target(name: "CTransformer", cSettings: [.headerSearchPath("."), .unsafeFlags(["-O2"])]),
        .target(name: "Transformer", dependencies: ["CTransformer"]),
        .executableTarget(name: "hello", dependencies: ["Transformer"]),
    ])
