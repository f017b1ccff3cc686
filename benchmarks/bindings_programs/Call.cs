using System;
using System.Diagnostics;
using System.Globalization;
using Add;

/// <summary>Nanoseconds of a call by the classes of C#.</summary>
public static class Call
{
    public static void Main()
    {
        using (var model = new Model(""))
        using (var session = model.Session(1))
        {
            var inputs = new Inputs { X = new float[] { 1 }, Y = new float[] { 2 } };
            var outputs = new Outputs();
            double reused = Least(() => session.Run(inputs, outputs));
            double fresh = Least(() => session.Run(inputs));
            var text = string.Format(CultureInfo.InvariantCulture, "{0:0.0} {1:0.0} {2:0}", reused, fresh, outputs.Z.Data[0]);
            Console.WriteLine(text);
        }
    }

    private static double Least(Action call)
    {
        double best = 1e18;
        for (int round = 0; round < 60; round++)
        {
            var watch = Stopwatch.StartNew();
            for (int i = 0; i < 20000; i++) call();
            best = Math.Min(best, 1e9 * watch.ElapsedTicks / Stopwatch.Frequency / 20000);
        }
        return best;
    }
}
