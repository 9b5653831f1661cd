import de.bwaldvogel.mongo.MongoServer;
import de.bwaldvogel.mongo.MongoVersion;
import de.bwaldvogel.mongo.backend.memory.MemoryBackend;
import java.util.List;

/**
 * Starts mongo-java-server on a free port of the loopback address, with its data in memory. The argument is the wire version that
 * the server reports: its own is 8, which MongoDB's current clients refuse.
 */
public final class MongoJavaServer {
    private MongoJavaServer() {}

    public static void main(String[] arguments) throws InterruptedException {
        int wireVersion = Integer.parseInt(arguments[0]);
        MongoVersion version = new MongoVersion() {
            @Override
            public List<Integer> getVersionArray() {
                return List.of(5, 0, 0);
            }

            @Override
            public int getWireVersion() {
                return wireVersion;
            }
        };
        MongoServer server = new MongoServer(new MemoryBackend().version(version));
        server.bind("127.0.0.1", 0);
        System.out.println("listening on 127.0.0.1:" + server.getLocalAddress().getPort());
        Thread.currentThread().join();
    }
}
