import CTransformer
import Foundation

/// Says what the library said.
public struct TranslationError: Error, CustomStringConvertible {
    public let description: String

    init(_ error: tfm_error) {
        var text = error.text
        description = withUnsafePointer(to: &text) {
            $0.withMemoryRebound(to: CChar.self, capacity: MemoryLayout.size(ofValue: text)) { String(cString: $0) }
        }
    }
}

/// Translates texts of any length, each by its sentences. Labels, quotation marks and text in the target language stay.
/// One thread at a time may use it.
public final class Translator {
    private let translator: OpaquePointer

    public init(path: String) throws {
        var error = tfm_error()
        guard let opened = text_translator_open(path, &error) else { throw TranslationError(error) }
        translator = opened
    }

    deinit {
        text_translator_close(translator)
    }

    public func translate(_ text: String) throws -> String {
        var error = tfm_error()
        guard let translation = text_translator_run(translator, text, &error) else { throw TranslationError(error) }
        defer { free(translation) }
        return String(cString: translation)
    }
}
