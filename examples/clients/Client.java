import java.nio.charset.StandardCharsets;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.commands.ProtocolCommand;

public class Client {
    /** A command that the client library has no method for. */
    record Command(String name) implements ProtocolCommand {
        public byte[] getRaw() { return name.getBytes(StandardCharsets.US_ASCII); }
    }

    static final Command INCRBY = new Command("CINT.INCRBY");
    static final Command BATCHINCR = new Command("CINT.BATCHINCR");
    static final Command MREAD = new Command("CINT.MREAD");
    static final Command ADD = new Command("RBM.ADD");

    public static void main(String[] args) {
        String url = System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6379");
        try (JedisPooled jedis = new JedisPooled(url)) {
            // Fields 0, 1, 2 of a post: reads, likes, comments.
            System.out.println("likes " + jedis.sendCommand(INCRBY, "demo:post:1", "1", "1", "LEN", "3"));
            jedis.sendCommand(BATCHINCR, "demo:post:1", "0", "11", "2", "5");

            // A page of posts in one call: 3 fields of 5 big-endian bytes for each key.
            byte[] page = (byte[]) jedis.sendCommand(MREAD, "3", "demo:post:1", "demo:post:2");
            StringBuilder counts = new StringBuilder("page");
            for (int i = 0; i < page.length; i += 5) {
                long count = 0;
                for (int j = i; j < i + 5; j++) count = count << 8 | (page[j] & 0xff);
                counts.append(' ').append(count);
            }
            System.out.println(counts);

            // Who liked it: an exact set of 64-bit ids. A long holds the bits; print it as unsigned.
            String member = Long.toUnsignedString(-1L);
            for (int i = 0; i < 2; i++) System.out.println("new " + jedis.sendCommand(ADD, "demo:likes:1", member));

            jedis.unlink("demo:post:1", "demo:likes:1");
        }
    }
}
