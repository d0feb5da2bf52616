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

/// Translates one sentence at a time. One thread at a time may use it.
public final class Translator {
    private var model: OpaquePointer?
    private var session: OpaquePointer?

    public init(path: String) throws {
        var error = tfm_error()
        var options = tfm_session_options()
        guard tfm_model_load_file(&model, path, nil, &error) == TFM_OK else { throw TranslationError(error) }
        options.decoding = tfm_model_decoding(model) // as the model file says
        guard tfm_session_create(&session, model, &options, &error) == TFM_OK else {
            tfm_model_free(model)
            model = nil
            throw TranslationError(error)
        }
    }

    deinit {
        tfm_session_free(session)
        tfm_model_free(model)
    }

    public func translate(_ text: String) throws -> String {
        var error = tfm_error()
        var buffer = [CChar](repeating: 0, count: 65536)
        guard tfm_translate(session, text, &buffer, buffer.count, &error) == TFM_OK else { throw TranslationError(error) }
        return String(cString: buffer)
    }
}
