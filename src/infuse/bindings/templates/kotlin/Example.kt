// Runs the model on zeros: Example [SIZE...]. The sizes are those of symbols: @SYMBOL_NAMES@.
import @NAME@.Inputs
import @NAME@.Model
import @NAME@.Tensor

fun main(arguments: Array<String>) {
  val symbols = LongArray(@SYMBOLS@) { arguments.getOrNull(it)?.toLong() ?: 2 }
  val shapes = Model.shapes(*symbols)
  val inputs = Inputs()
@READ@
  Model.load().use { model ->
    model.session(2).use { session ->
      val outputs = session.run(inputs)
@WRITE@
    }
  }
}
